// Package fleet lets many services loose on one gateway, each with a client of its own,
// and takes the gateway down: only tests. What the client's documentation promises of
// the retry budget (P4) is held against what the gateway counted, whoever sent it: the
// attempts of services, the retries of their reads, and the workers' redeliveries.
package fleet
