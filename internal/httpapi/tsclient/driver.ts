// Drives a served API by the types that openapi-typescript makes from its document, and
// prints what it did, for the test that started it to compare with the ledger.
//
// The type-checker is part of the test: a line under @ts-expect-error must be wrong by
// the document, and all others right.
import createClient, { type Middleware } from "openapi-fetch";
import type { components, paths } from "./api.js";

type Problem = components["schemas"]["Problem"];
type Submission = components["schemas"]["Submission"];
type Change = components["schemas"]["Change"];

declare const process: { env: Record<string, string | undefined>; exitCode: number | undefined };

function env(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set`);
  return value;
}

function clientOf(token: string) {
  const bearer: Middleware = {
    onRequest({ request }) {
      if (token !== "") request.headers.set("Authorization", `Bearer ${token}`);
      return request;
    },
  };
  const client = createClient<paths>({
    baseUrl: env("API_URL"),
    querySerializer: { array: { style: "form", explode: false } },
  });
  client.use(bearer);
  return client;
}

const shop = clientOf(env("TOKEN_SUBMIT"));
const dashboard = clientOf(env("TOKEN_READ"));
const ann = clientOf(env("TOKEN_ALL"));
const stranger = clientOf("");

// good returns the data of an answer that must be a success of one of these statuses.
function good<T>(what: string, answer: { data?: T; error?: unknown; response: Response }, ...statuses: number[]): T {
  if (answer.data === undefined || !statuses.includes(answer.response.status)) {
    throw new Error(`${what}: ${answer.response.status} ${JSON.stringify(answer.error)}`);
  }
  return answer.data;
}

const met: Record<number, string> = {};

// refused checks that an answer is the problem of a type, and notes it.
function refused(what: string, answer: { error?: Problem; response: Response }, status: number, type: string): Problem {
  const p = answer.error;
  const media = answer.response.headers.get("Content-Type");
  if (p === undefined || answer.response.status !== status || p.status !== status || p.type !== `urn:redrive:problem:${type}` || media !== "application/problem+json") {
    throw new Error(`${what}: ${answer.response.status} ${media} ${JSON.stringify(p)}, want ${status} ${type}`);
  }
  met[status] = type;
  return p;
}

function equal(what: string, got: unknown, want: unknown): void {
  if (got !== want) throw new Error(`${what}: ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}

function charge(key: string): Submission {
  return { kind: "charge", key, body: { amount: 4200, currency: "GBP" } };
}

// eventsOf reads a stream until it told of so many operations. The body is a stream of bytes.
async function eventsOf(stream: ReadableStream<Uint8Array>, want: number): Promise<Set<string>> {
  const seen = new Set<string>();
  const reader = stream.getReader();
  const text = new TextDecoder();
  let rest = "";
  while (seen.size < want) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`the stream ended after ${seen.size} of ${want}`);
    rest += text.decode(value, { stream: true });
    const blocks = rest.split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const data = block.split("\n").find((line) => line.startsWith("data: "));
      if (data === undefined) continue; // a comment
      const change: Change = JSON.parse(data.slice("data: ".length));
      seen.add(change.operation);
    }
  }
  await reader.cancel();
  return seen;
}

async function main(): Promise<void> {
  // What the document does not allow does not compile.
  // @ts-expect-error an unknown field
  const withTypo: Submission = { kind: "charge", key: "a", bdy: {} };
  // @ts-expect-error a number where text is wanted
  const withNumber: Submission = { kind: "charge", key: 7 };
  // @ts-expect-error an unknown verdict
  const withVerdict: components["schemas"]["Verdict"] = { verdict: "maybe" };
  void [withTypo, withNumber, withVerdict];

  const following = await dashboard.GET("/v1/events", { params: { query: { dependency: "payrail" } }, headers: { Accept: "text/event-stream" }, parseAs: "stream" });
  const stream = good("follow", following, 200);
  if (stream === null) throw new Error("the stream has no body");

  const kinds = good("kinds", await shop.GET("/v1/kinds"), 200);
  equal("kinds", kinds.items.map((k) => k.kind).join(), "charge,payout,refund");

  // Submit, also with a key that is escaped in a path, and the same again.
  const keys = ["ts/1", "ts-2", "ts-3"];
  for (const key of keys) {
    const receipt = good(`submit ${key}`, await shop.POST("/v1/operations", { body: charge(key) }), 201);
    equal("answer", receipt.answer, "accepted");
    equal("state", receipt.state, "waiting");
  }
  equal("again", good("submit again", await shop.POST("/v1/operations", { body: charge("ts/1") }), 200).answer, "duplicate");

  // Import, of which one line is wrong.
  const lines = Array.from({ length: 20 }, (_, i) => JSON.stringify(charge(`import-${i}`)));
  lines.splice(7, 0, JSON.stringify({ kind: "nothing", key: "x", body: {} }));
  const imported = good("import", await shop.POST("/v1/operations:import", {
    body: lines.join("\n"),
    bodySerializer: (text) => text,
    headers: { "Content-Type": "application/x-ndjson", Accept: "application/x-ndjson" },
    parseAs: "text",
  }), 200).trim().split("\n");
  const last: components["schemas"]["LastLine"] = JSON.parse(imported.at(-1) ?? "");
  equal("lines", last.lines, 21);
  equal("accepted lines", last.answers?.accepted, 20);
  equal("refused lines", last.answers?.refused, 1);

  // List by pages; each operation comes once.
  const listed = new Set<string>();
  for (let cursor = "", pages = 0; pages === 0 || cursor !== ""; pages++) {
    const page = good("list", await dashboard.GET("/v1/operations", { params: { query: { kind: ["charge"], state: ["waiting", "attempting"], limit: 6, cursor } } }), 200);
    for (const o of page.items) listed.add(`${o.kind}/${o.key}`);
    cursor = page.next_cursor;
    if (pages > 10) throw new Error("the list does not end");
  }
  equal("listed", listed.size, 23);

  const path = { kind: "charge", key: "ts/1" };
  const one = good("get", await dashboard.GET("/v1/operations/{kind}/{key}", { params: { path } }), 200);
  equal("amount", one.columns?.amount, "4200");
  equal("events in its timeline", (one.timeline?.length ?? 0) >= 1, true);
  const cancelled = good("cancel", await ann.POST("/v1/operations/{kind}/{key}/cancel", { params: { path }, body: { note: "withdrawn" } }), 200);
  equal("cancelled", cancelled.state, "cancelled");

  // A dead letter: its outcome is unknown until a person finds out.
  good("submit attempted", await shop.POST("/v1/operations", { body: { kind: "refund", key: "ts-dead", body: { amount: 5, currency: "GBP" }, attempted: { outcome: "unknown", class: "timeout" } } }), 201);
  const doubt = good("dry run in doubt", await ann.POST("/v1/dead-letters/requeue", { body: { note: "back", filter: { kind: ["refund"] }, dry_run: true } }), 200);
  equal("refused while in doubt", doubt.dry_run?.refused, 1);
  const found = good("resolve", await ann.POST("/v1/operations/{kind}/{key}/resolve", { params: { path: { kind: "refund", key: "ts-dead" } }, body: { note: "looked", verdict: "not_applied" } }), 200);
  equal("resolved", found.state, "dead");
  const dry = good("dry run", await ann.POST("/v1/dead-letters/requeue", { body: { note: "back", filter: { kind: ["refund"] }, dry_run: true } }), 200);
  equal("would be requeued", dry.dry_run?.requeued, 1);
  equal("sum", dry.dry_run?.groups?.[0]?.sums?.amount?.GBP, "5");

  // The gate.
  const dependency = { dependency: "payrail" };
  equal("paused", good("pause", await ann.POST("/v1/dependencies/{dependency}/pause", { params: { path: dependency }, body: { note: "maintenance", for: "1h" } }), 200).paused, true);
  equal("paused by", good("gate", await dashboard.GET("/v1/dependencies/{dependency}", { params: { path: dependency } }), 200).paused?.by, "ann");
  equal("resumed", good("resume", await ann.POST("/v1/dependencies/{dependency}/resume", { params: { path: dependency }, body: { note: "over" } }), 200).paused, false);
  const over = good("override", await ann.PUT("/v1/dependencies/{dependency}/override", { params: { path: dependency }, body: { note: "headroom", for: "30m", limits: { ratio: 0.3 } } }), 200);
  equal("override", over.override?.values?.ratio, 0.3);
  const ended = good("end override", await ann.DELETE("/v1/dependencies/{dependency}/override", { params: { path: dependency, query: { note: "enough" } } }), 200);
  equal("override after its end", ended.override, null);

  // Each problem by its type.
  refused("no token", await stranger.GET("/v1/operations"), 401, "unauthorized");
  refused("no role", await shop.GET("/v1/operations"), 403, "forbidden");
  refused("nobody", await dashboard.GET("/v1/operations/{kind}/{key}", { params: { path: { kind: "charge", key: "nobody" } } }), 404, "not-found");
  const conflict = refused("another body", await shop.POST("/v1/operations", { body: { ...charge("ts-2"), body: { amount: 1 } } }), 409, "conflict");
  equal("what differs", conflict.receipt?.differs?.includes("body"), true);
  const wrong = refused("an unknown kind", await shop.POST("/v1/operations", { body: { kind: "nothing", key: "a" } }), 422, "invalid");
  equal("where it is wrong", wrong.errors?.[0]?.location, "body.kind");
  good("the last that fits", await shop.POST("/v1/operations", { body: { kind: "refund", key: "ts-fits", body: {} } }), 201);
  const full = await shop.POST("/v1/operations", { body: { kind: "refund", key: "ts-full", body: {} } });
  refused("a full backlog", full, 429, "backlog-full");
  equal("Retry-After", Number(full.response.headers.get("Retry-After")) > 0, true);

  const told = await eventsOf(stream, 23);
  console.log(JSON.stringify({ submitted: keys.length + (last.answers?.accepted ?? 0) + 2, cancelled: 1, dead: 1, told: told.size, met }));
}

main().catch((err: unknown) => {
  console.error(err instanceof Error ? err.message : err);
  process.exitCode = 1;
});
