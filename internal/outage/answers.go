package outage

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	gatewayclient "redrive/internal/gateway"
	"redrive/internal/policy"
	"redrive/internal/worker"
)

// answers is what a client read: the gateway knows what it said, and not whether it
// was heard in time.
type answers struct {
	clock clock

	mu      sync.Mutex // guards refused
	refused map[string]time.Duration
}

// note writes down the first refusal for good. 409 is none here: this gateway says by
// it that the first call under the key is still under way.
func (a *answers) note(reference string, status int) {
	if status/100 != 4 || slices.Contains([]int{http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests}, status) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.refused[reference]; !ok {
		a.refused[reference] = a.clock.now()
	}
}

// noted is the client that workers send with, and what it reads.
type noted struct {
	worker.Sender
	answers *answers
}

// Send notes the answer of an attempt.
func (n noted) Send(ctx context.Context, call gatewayclient.Call) gatewayclient.Answer {
	a := n.Sender.Send(ctx, call)
	if a.Sample.Phase == policy.PhaseAnswered {
		n.answers.note(call.Request.CorrelationID, a.Sample.Status)
	}
	return a
}
