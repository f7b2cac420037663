//go:build race

package gateway

// Under the race detector so many at once would starve the tests beside them.
const bulkCalls, bulkAtOnce = 1500, 16
