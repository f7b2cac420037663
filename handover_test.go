package redrive

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"redrive/internal/gateway"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/policy"
	"redrive/internal/terms"
)

// classKinds are kinds of each class, with somebody to ask (CLASS-asked) and without.
func classKinds() (text string, names []string) {
	const inquiry = `, inquiry: {settle: 10m, request: {method: GET, path: "/v1/charges?reference={key}"}, answers: [200], succeeded: 'body.done == true', not_found: 'body.done == false'}`
	for _, class := range jobs.Idempotencies {
		key := ""
		if class != jobs.IdempotencyKeyed {
			key = ", idempotency_key: {header: ''}"
		}
		for name, asked := range map[string]string{string(class): "", string(class) + "-asked": inquiry} {
			text += fmt.Sprintf("  %s: {dependency: payrail, idempotency: %s%s%s, request: {method: POST, path: /v1/charges}}\n", name, class, key, asked)
			names = append(names, name)
		}
	}
	return text, names
}

// withKinds is a file that has these kinds, and rules of the dependency, too.
func (b *bundle) withKinds(kinds, rules string) {
	b.Helper()
	text, err := os.ReadFile(b.config)
	if err != nil {
		b.Fatal(err)
	}
	whole := strings.Replace(string(text), "payrail: {", "payrail: {"+rules, 1) + kinds
	if err := os.WriteFile(b.config, []byte(whole), 0o600); err != nil {
		b.Fatal(err)
	}
}

// met is one thing that an attempt may meet.
type met struct {
	name   string
	answer gateway.Answer
}

// allMet is every phase of the network and every status, those included that no row lists.
func allMet() []met {
	var out []met
	for _, phase := range policy.Phases {
		if phase == policy.PhaseAnswered {
			continue
		}
		for _, written := range []int64{0, 1} { // a phase that proves that nothing was sent proves nothing with bytes on the wire
			answer := gateway.Answer{Sample: policy.Sample{Phase: phase, WireBytes: written}, WireBytes: written, Err: string(phase)}
			if phase == policy.PhaseBodyCut || phase == policy.PhaseTruncatedUndetected {
				answer.Sample.Status = http.StatusOK
			}
			out = append(out, met{fmt.Sprintf("%s-%d", phase, written), answer})
		}
	}
	for status := 100; status < 600; status++ {
		out = append(out, met{fmt.Sprint(status), gateway.Seen(status, nil, []byte(`{"id":"x"}`), time.Millisecond, nil)})
	}
	page := gateway.Seen(http.StatusOK, nil, []byte("<html>wait</html>"), time.Millisecond, nil)
	busy := gateway.Seen(http.StatusRequestEntityTooLarge, http.Header{"Retry-After": {"1"}}, nil, time.Millisecond, nil)
	return append(out, met{"page", page}, met{"busy", busy}, met{"700", gateway.Seen(700, nil, nil, time.Millisecond, nil)})
}

// sender has the attempt meet it, as [Attempt.Send] would.
func (m met) sender() SendFunc {
	return func(_ context.Context, a *Attempt) (Reply, error) {
		a.answer, a.reply = &m.answer, Reply{Status: m.answer.Sample.Status}
		if a.reply.Status == 0 {
			a.err = errors.New(m.answer.Err)
		}
		return a.reply, a.err
	}
}

// stand is where an operation is found; "none": nowhere.
func stand(t *testing.T, c *Client, kind, key string) string {
	t.Helper()
	record, err := c.Get(t.Context(), kind, key)
	if errors.Is(err, ErrNotFound) {
		return "none"
	}
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s/%s applied %s after %s %d", record.State, record.Reason, record.Applied, record.LastClass, record.LastStatus)
}

// Do said "declined" of answers whose outcome is unknown: of every 1xx, 2xx and 3xx that no
// row lists, and where a rule says so of what may have been processed. In light mode such a
// charge was lost from sight. And what light mode handed over forgot what the answer meant:
// a 202 was sent again, and a redirect. Both modes leave the same record of whatever an
// attempt may meet, and a failure is permanent only where it is known that nothing was done.
func TestBothModesLeaveTheSameRecordOfWhateverAnAttemptMeets(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	kinds, names := classKinds()
	b.withKinds(kinds, `rules: [{when: 'status == 298', verdict: permanent_failure, processed: maybe}, {when: 'status == 299', verdict: permanent_failure, processed: yes}, `+
		`{when: 'status == 297', verdict: pending_poll}, {when: 'status == 296', verdict: conflict_read_original}], `)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &bundle{T: t, srv: b.srv, config: b.config, Client: b.Client}
			modes := map[Mode]*Client{Durable: nil, Light: nil}
			for mode := range modes {
				modes[mode] = b.another(func(o *Options) { o.Mode, o.Namespace = mode, fmt.Sprintf("%s%s%d", b.o.Namespace, name, mode) })
			}
			for _, m := range allMet() {
				var stands [2]string
				for mode, c := range modes {
					stands[mode] = m.wantDone(t, c, name, mode)
				}
				if stands[Light] != "none" && stands[Durable] != stands[Light] {
					t.Errorf("%s: durable leaves it %s, light %s", m.name, stands[Durable], stands[Light])
				}
			}
		})
	}
}

// wantDone attempts an operation once, and holds what Do says against what is known of the
// outcome and against the record.
func (m met) wantDone(t *testing.T, c *Client, kind string, mode Mode) string {
	t.Helper()
	ctx := t.Context()
	_, err := c.Do(ctx, Operation{Kind: kind, Key: m.name, Body: []byte(`{}`)}, m.sender())
	found := stand(t, c, kind, m.name)
	var declined *Permanent
	var deferred *Deferred
	known := c.outcomeOf(kind, m.answer)
	switch {
	case err == nil:
		if known != jobs.OutcomeSucceeded {
			t.Errorf("%v %s: a success, of an outcome that is %s", mode, m.name, known)
		}
	case errors.As(err, &declined):
		if known == jobs.OutcomeUnknown || known == jobs.OutcomeSucceeded || declined.Reason == "" {
			t.Errorf("%v %s: permanent for %q, of an outcome that is %s", mode, m.name, declined.Reason, known)
		}
		if want := map[Mode]string{Durable: "cancelled/ applied no ", Light: "none"}[mode]; !strings.HasPrefix(found, want) {
			t.Errorf("%v %s: permanent, and it is %s", mode, m.name, found)
		}
	case errors.As(err, &deferred):
		text := fmt.Sprintf("%s/%s ", deferred.Receipt.State, deferred.Reason)
		if !strings.HasPrefix(found, text) || deferred.Outcome != Outcome(known) || deferred.Cause == nil || deferred.Cause.Error() == "" {
			t.Errorf("%v %s: deferred as %s (%s), caused by %q; it is %s (%s)", mode, m.name, text, deferred.Outcome, deferred.Cause, found, known)
		}
		if known == jobs.OutcomeUnknown && !strings.Contains(found, "applied unknown") {
			t.Errorf("%v %s: of unknown outcome, and it is %s", mode, m.name, found)
		}
	default:
		t.Errorf("%v %s: %v", mode, m.name, err)
	}
	if m.refusesCredentials() { // three in a row pause the dependency
		if _, err := c.Do(ctx, Operation{Kind: kind, Key: m.name + "-well", Body: []byte(`{}`)}, met{"", gateway.Seen(http.StatusCreated, nil, []byte(`{}`), 1, nil)}.sender()); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func (m met) refusesCredentials() bool {
	return policy.Classify(m.answer.Sample, jobs.IdempotencyNone).CredentialRefused
}

// outcomeOf is what the table, or a rule of the dependency, says of an answer.
func (c *Client) outcomeOf(kind string, answer gateway.Answer) jobs.Outcome {
	spec, err := c.spec(kind)
	if err != nil {
		return ""
	}
	cl, _, ruled, _ := c.config.Dependencies[spec.Dependency].Rules.Classify(answer.Sample, spec.Idempotency)
	if !ruled {
		cl = policy.Classify(answer.Sample, spec.Idempotency)
	}
	return cl.Outcome
}

// A send that could not be written ahead for certain is handed over, and its write-ahead
// may stand all the same: both together leave what the write-ahead alone would.
func TestAWriteAheadThatWasLostAndFoundLeavesTheSameRecord(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	kinds, names := classKinds()
	b.withKinds(kinds, "")
	c := b.another(nil)
	for _, name := range names {
		spec, err := c.spec(name)
		if err != nil {
			t.Fatal(err)
		}
		if !repeatable(spec.Idempotency) {
			continue
		}
		for _, status := range []int{202, 209, 301, 307, 409, 412, 402, 425, 500, 503} {
			m := met{fmt.Sprint(status), gateway.Seen(status, nil, nil, time.Millisecond, nil)}
			_, _ = c.Do(t.Context(), Operation{Kind: name, Key: m.name, Body: []byte(`{}`)}, m.sender())
			key := m.name + "-found"
			o := Operation{Kind: name, Key: key, Body: []byte(`{}`)}
			d := &doing{c: c, o: o, spec: spec, s: o.submission(spec), send: m.sender(), durable: true}
			request, err := ledger.RequestOf(d.s, spec)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.times(t.Context()); err != nil {
				t.Fatal(err)
			}
			entry, err := ledger.Prepare(d.s, spec)
			if err != nil {
				t.Fatal(err)
			}
			d.unsettled = ledger.NewRunID()
			if _, grant, err := c.ledger.SubmitBegun(t.Context(), terms.Submit(spec, c.o.Name), terms.Target(spec), entry, d.unsettled); err != nil || grant == nil {
				t.Fatalf("%s: not written ahead: %v", key, err)
			}
			_, _ = d.light(t.Context(), request)
			await(t, "what the write-ahead brought", func() bool { return !strings.HasPrefix(stand(t, c, name, key), "attempting") })
			if alone, both := stand(t, c, name, m.name), stand(t, c, name, key); alone != both {
				t.Errorf("%s %s: %s, and found late %s", name, m.name, alone, both)
			}
		}
	}
}
