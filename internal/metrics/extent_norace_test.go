//go:build !race

package metrics

const t89Operations, t89Restarts = 100_000, 1000
