package archtest

// order says who may import whom among the packages of the module: each name in
// over may import each name in under and, through it, whatever that one may.
// "." is the root package.
var order = []struct {
	under, over []string
	why         string
}{
	{[]string{"internal/jobs"}, []string{"internal/policy", "internal/luascript", "internal/metrics"},
		"the nouns are the ground floor: they import nothing of ours"},
	{[]string{"internal/jobs"}, []string{"internal/sim/model"},
		"the model shares the words and no code: a mistake in the code cannot hide in it"},
	{[]string{"internal/luascript"}, []string{"internal/budget", "internal/dedupe"},
		"budget and dedupe each own their Lua and never import each other: the ledger composes them into one atomic script"},
	{[]string{"internal/budget"}, []string{"internal/sim/gate"},
		"the outages are played over the oracle of the gate and nothing else of ours"},
	{[]string{"internal/budget", "internal/dedupe"}, []string{"internal/ledger"},
		"the ledger is the only package that knows both the gate and the identity of an operation"},
	{[]string{"internal/jobs", "internal/policy"}, []string{"internal/config"},
		"the configuration is checked by the same pure code that decides"},
	{[]string{"internal/gateway/presets"}, []string{"internal/config"},
		"what is known of gateways is read by the one strict reader of YAML; the files know nothing of who reads them"},
	{[]string{"internal/jobs", "internal/policy", "internal/config"}, []string{"internal/gateway"},
		"a gateway sends and classifies; where an operation goes next is not its business"},
	{[]string{"internal/jobs"}, []string{"internal/tracing"},
		"spans name operations by the nouns and know nothing of who makes them"},
	{[]string{"internal/tracing"}, []string{"internal/otlp"}, "who makes spans need not know where they go, nor carry the code for it"},
	{[]string{"internal/ledger", "internal/policy", "internal/gateway", "internal/config"}, []string{"internal/attempt"},
		"what an answer means is one piece of code for whoever sends; it sends nothing itself"},
	{[]string{"internal/attempt", "internal/metrics", "internal/tracing"}, []string{"internal/worker"},
		"the worker joins ledger, policy and gateway; none of them knows it"},
	{[]string{"internal/ledger"}, []string{"internal/requestpath"},
		"a request path tells the gate what it sent; it neither sends nor redelivers here"},
	{[]string{"internal/jobs", "internal/policy", "internal/config"}, []string{"internal/analysis"},
		"what a configuration leads to is asked of the code that decides; nothing is sent or stored to find it out"},
	{[]string{"internal/ledger"}, []string{"internal/wire"}, "what both doors read and show as JSON is written once; it decides nothing"},
	{[]string{"internal/ledger", "internal/terms", "internal/config", "internal/operator", "internal/wire"}, []string{"internal/httpapi"},
		"the API is a door as enqueue is: it writes and reads the ledger and never sends, so it must not reach worker or gateway"},
	{[]string{"internal/gateway", "internal/worker", "internal/sandbox", "internal/picture"}, []string{"internal/rehearsal"},
		"a rehearsal plays against the real parts"},
	{[]string{"internal/gateway", "internal/worker", "internal/sandbox", "internal/rehearsal", "internal/requestpath", "internal/picture"}, []string{"internal/outage"},
		"an outage is played against the real parts, the request path's among them, on the store of the rehearsal"},
	{[]string{"internal/ledger", "internal/policy"}, []string{"internal/terms"}, "what is published of a kind is read alike by whoever submits"},
	{[]string{"internal/ledger", "internal/terms"}, []string{"internal/operator"},
		"what a person asks of operations is done by one piece of code, whatever door it comes through; it never sends"},
	{[]string{"internal/jobs"}, []string{"internal/remote"},
		"who asks a worker over the network knows the nouns and how to ask; what is asked is said by who uses it"},
	{[]string{"internal/operator", "internal/wire", "internal/config", "internal/tracing", "internal/otlp", "internal/remote"}, []string{"internal/cli"},
		"enqueue writes and reads the ledger and never sends: it must not reach worker or gateway"},
	{[]string{"internal/jobs", "internal/policy", "internal/ledger", "internal/budget", "internal/config", "internal/terms", "internal/gateway",
		"internal/attempt", "internal/requestpath", "internal/tracing"}, []string{"."},
		"the client is linked into other people's programs: nothing that only a worker needs may come along"},
	{[]string{"."}, []string{"examples/checkout"}, "an example knows what any service knows: the public client"},
	{[]string{"internal/jobs", "internal/policy", "internal/luascript", "internal/budget", "internal/dedupe", "internal/ledger", "internal/gateway",
		"internal/worker", "internal/operator", "internal/otlp", "internal/config", "internal/analysis", "internal/httpapi", "internal/console", "internal/sandbox", "internal/rehearsal", "internal/outage", "internal/picture", "internal/metrics"},
		[]string{"internal/app"}, "app is the composition root of worker: it alone sees everything"},
}

// standalone packages import nothing of ours.
var standalone = map[string]string{
	"internal/jobs":            "the nouns are the ground floor: whatever they imported could never use them",
	"internal/sandbox":         "the judge must not share code with what it judges",
	"internal/redistest":       "tests of every package use it, so it must depend on none",
	"internal/tlstest":         "tests of every package use it, so it must depend on none",
	"internal/picture":         "it draws texts, whatever they are about",
	"internal/gateway/presets": "files and their names: config reads them, and config may not import gateway",
	"internal/archtest":        "it reads sources, it does not run them",
	"internal/console":         "the page talks to the API over HTTP only",
	"internal/dashboard":       "it makes a file for Grafana: what it names of the metrics is tried on a real Prometheus",
	"scripts/gotest":           "it judges the tests and must build when nothing else does",
}

// mains import their composition root and nothing else of ours.
var mains = map[string]string{
	"cmd/worker":  "internal/app",
	"cmd/enqueue": "internal/cli",
}

const mainWhy = "main hands over to one function, so that the program can run inside a test"

// testsOnly are the packages that only test files may import.
var testsOnly = map[string]string{
	"internal/redistest": "it fails through testing.TB",
	"internal/tlstest":   "it fails through testing.TB",
	"internal/bench":     "it has only benchmarks",
	"internal/e2e":       "it has no code",
	"internal/torture":   "it has no code",
	"internal/fleet":     "it has no code",
	"internal/dashboard": "it makes a file of this repository and is no part of the program",
	"internal/sim":       "a model of the system is no part of it",
	"internal/archtest":  "it has no code",
	"internal/sim/model": "a second reading of the design is no part of the program",
	"internal/sim/world": "it has no code",
	"internal/sim/gate":  "outages that are played are no part of the program",
}

// outside says which packages may import which modules in files that are not
// tests. A module that is not listed may be imported nowhere: a new one is a
// decision, written down here with its reason.
var outside = []struct {
	module  string
	allowed []string
	why     string
}{
	{"github.com/hibiken/asynq", []string{"internal/worker"},
		"one package knows the queue and its traps; to everybody else a delivery is a hint"},
	{"github.com/redis/go-redis/v9", []string{"internal/luascript", "internal/budget", "internal/dedupe", "internal/ledger", "internal/worker",
		"internal/rehearsal", "internal/outage", "internal/app", "internal/cli", "internal/httpapi", "internal/redistest", "."},
		"decisions, sending and configuration do not know where state is kept"},
	{"github.com/alicebob/miniredis/v2", []string{"internal/redistest", "internal/rehearsal"},
		"an in-memory Redis must never stand behind real operations: tests and the embedded store of demo and rehearse only"},
	{"github.com/spf13/cobra", []string{"internal/cli", "internal/app"}, "commands are parsed in the composition roots, nowhere below"},
	{"github.com/spf13/pflag", []string{"internal/cli", "internal/app"}, "commands are parsed in the composition roots, nowhere below"},
	{"github.com/goccy/go-yaml", []string{"internal/config"}, "one strict reader of YAML"},
	{"cel.dev/cel-go", []string{"internal/policy"}, "rules are compiled where they are decided on"},
	{"github.com/prometheus/client_golang", []string{"internal/metrics"}, "every metric is declared in one place"},
	{"go.opentelemetry.io/otel", []string{"internal/tracing", "internal/otlp", "."}, "every span is made in one place, and sent from one; the client takes the provider that its service has"},
	{"github.com/schollz/progressbar/v3", []string{"internal/cli", "internal/rehearsal", "internal/app"}, "only what talks to a person draws"},
	{"gonum.org/v1/plot", []string{"internal/outage"}, "one package draws what was played; whoever redelivers draws nothing"},
	{"github.com/jedib0t/go-pretty/v6", []string{"internal/cli", "internal/rehearsal", "internal/outage", "internal/app"}, "only what talks to a person draws"},
	{"github.com/lmittmann/tint", []string{"internal/cli", "internal/app"}, "loggers are made in the composition roots and injected"},
	{"golang.org/x/term", []string{"internal/cli", "internal/rehearsal", "internal/app"}, "only what talks to a person asks whether there is a terminal"},
	{"github.com/danielgtaylor/huma/v2", []string{"internal/httpapi"}, "routes and the OpenAPI document are made in one place"},
	{"golang.org/x/sys", []string{"internal/gateway"}, "socket options of a send"},
}

// std says which packages must not import which part of the standard library;
// "os/..." is os and all below it.
var std = []struct {
	names  []string
	banned []string
	why    string
}{
	{[]string{"net", "net/http/..."}, []string{"internal/jobs", "internal/policy", "internal/analysis"}, "decisions are pure: what happened on the network is told to them"},
	{[]string{"os/..."}, []string{"internal/jobs", "internal/policy", "internal/analysis"}, "decisions are pure: they neither read files nor the environment"},
	{[]string{"crypto/rand"}, []string{"internal/jobs", "internal/policy", "internal/analysis"}, "decisions are pure: randomness is handed in, so that tests can seed it"},
	{[]string{"log/..."}, []string{"internal/jobs", "internal/policy", "internal/analysis"}, "decisions return what they found; the caller logs"},
	{[]string{"os/...", "flag", "log/...", "net/http/..."}, []string{"internal/operator"}, "who gave the words, and who is told what came of them, is the caller's business"},
	{[]string{"testing/..."}, []string{".", "internal/jobs", "internal/policy", "internal/ledger", "internal/budget", "internal/dedupe", "internal/worker",
		"internal/gateway", "internal/config", "internal/analysis", "internal/app", "internal/cli", "internal/remote", "internal/operator", "internal/sandbox", "internal/metrics", "internal/requestpath"},
		"programs that are shipped do not carry test flags"},
}
