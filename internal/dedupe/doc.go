// Package dedupe decides identity: whether two submissions under one name are
// the same request, and which run holds the right to send.
//
// Terms. A fingerprint is a digest of what must be equal for two submissions to
// be the same request (content type, params, headers, credential, given
// idempotency key and body), followed by one short digest per field, which only
// names what differs. A tombstone is what is left of an ended operation after its
// bodies are gone: it still answers duplicate and conflict. A claim is the right
// to make the one attempt in flight, held by a run id; its Lua is composed into
// the ledger's scripts, because the step must be atomic with the state change.
//
// The package does not store anything itself.
package dedupe
