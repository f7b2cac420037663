// Package httpapi is the door to a worker over HTTP, on listen.
//
// /livez (the process runs), /readyz (it can do its work, or the reasons why not) and
// /metrics tell nothing about operations and need no token, so they may listen on any
// address. What is ready, and the metrics, are handed in.
//
// Below /v1 it is the API: operations are handed in, looked at and stopped, dead
// letters counted, dependencies held and let go, and changes followed. It writes and
// reads the ledger as the program enqueue does, and never sends anything itself.
// docs/api.md tells each route, role and problem; docs/openapi.yaml is the same for
// programs, and is made from the code.
//
// Who may do what: a token (see [config.Token]) has a name, under which its changes
// stand in the audit, and roles. Without tokens the API is served on loopback alone, to
// whoever is there, under the name "loopback"; on any other address it is refused.
// Requests that a browser makes for another site are refused always.
//
// Every request is bounded: header, body, time, how many at once. A client that reads
// too slowly is cut off, and loses nothing: an import tells how far it came, a stream of
// events goes on where it was left.
package httpapi
