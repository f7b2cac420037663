// Package gateway sends one attempt over HTTP and says what it met.
package gateway
