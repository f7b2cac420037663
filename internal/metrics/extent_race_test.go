//go:build race

package metrics

// With the race detector each operation takes ten times as long, and one after the
// other they show it nothing that fewer of them do not.
const t89Operations, t89Restarts = 20_000, 50
