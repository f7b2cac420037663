package rehearsal

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	"redrive/internal/jobs"
)

func dice(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

func TestOrdersAreDrawnFromTheSeedAlone(t *testing.T) {
	t.Parallel()
	a, b, c := drawOrders(200, dice(7)), drawOrders(200, dice(7)), drawOrders(200, dice(8))
	if !reflect.DeepEqual(a, b) {
		t.Error("the same seed draws other orders")
	}
	if reflect.DeepEqual(a, c) {
		t.Error("another seed draws the same orders")
	}
}

func TestOrdersAreOfEveryWayAndClass(t *testing.T) {
	t.Parallel()
	ways, kinds, tight := map[way]int{}, map[jobs.Kind]int{}, 0
	references := map[string]bool{}
	for _, order := range drawOrders(300, dice(1)) {
		ways[order.way]++
		kinds[order.ID.Kind]++
		if order.deadline > 0 {
			tight++
		}
		if references[order.Reference] {
			t.Fatalf("reference %s twice: the gateway's ledger could not tell them apart", order.Reference)
		}
		references[order.Reference] = true
		if !json.Valid(order.body) {
			t.Fatalf("body %s is not JSON", order.body)
		}
		if order.Keyed == (order.ID.Kind == kindPayout || order.ID.Kind == kindTransfer) {
			t.Fatalf("%s: keyed %v", order.ID, order.Keyed)
		}
	}
	if ways[neverAttempted] != 150 || ways[timedOut] != 90 || ways[refused] != 60 {
		t.Errorf("ways %v, want half never attempted, three in ten timed out, two in ten refused", ways)
	}
	if kinds[kindCharge] < 180 || kinds[kindVoid] < 10 || kinds[kindPayout] < 20 || kinds[kindTransfer] < 5 || tight < 5 {
		t.Errorf("kinds %v, %d with a tight deadline", kinds, tight)
	}
}
