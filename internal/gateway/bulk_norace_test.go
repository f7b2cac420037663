//go:build !race

package gateway

const bulkCalls, bulkAtOnce = 5000, 80
