package gateway

import (
	"testing"

	"go.uber.org/goleak"
)

// A link of toxiproxy that is stopped while a chunk is on its way never ends: the chunk
// has nobody left to take it.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"))
}
