// Package e2e runs the two programs as processes against a real redis-server, the
// sandbox, and a gateway that somebody else wrote: only tests. They are used as people
// use them: on Redis, and through the workers' HTTP API over TLS, under tokens. What is
// right is read from the gateway's ledger, not from ours.
package e2e
