package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"redrive/internal/config"
	"redrive/internal/jobs"
	"redrive/internal/ledger"
	"redrive/internal/redistest"
	"redrive/internal/sandbox"
)

const (
	namespace  = "torture"
	dependency = jobs.Dependency("payrail")
	workers    = 3
	timeout    = time.Second // of one attempt

	// withInquiry gives the kinds of class none and conditional an inquiry. Without one,
	// what is unknown of them ends dead(unsafe).
	withInquiry = true
	// withTailCuts lets the script roll Redis back. It stays off while a rollback is
	// not detected.
	withTailCuts = true

	// restWithin bounds how long everything may take to come to rest: a release lease
	// of 30 s, and what a machine under load adds.
	restWithin = 2 * time.Minute
)

// configText has a min_response that leaves room for an arrival to be noted late: the
// door shares its machine with everything that is taken apart.
const configText = `redis: {url: '%s', namespace: %s}
listen: 127.0.0.1:0
shutdown_grace: 3s
log: {level: info, format: json}
dependencies:
  payrail:
    base_url: '%s'
    timeout: %s
    min_response: 700ms
    slots: 10
    max_in_flight: 0
    budget: {ratio: 1, cap: 10000, floor_per_second: 1000}
    rules:
      - {when: 'status == 409 && body.error.code == "duplicate_reference"', verdict: duplicate_success}
x-common: &common {dependency: payrail, deadline: 20m, max_attempts: 60, backoff: {base: 200ms, cap: 1s}}
operations:
  payout: {<<: *common, idempotency: none, idempotency_key: {header: ''}, request: {method: POST, path: /v1/charges}%[5]s}
  invoice: {<<: *common, idempotency: conditional, idempotency_key: {header: ''}, request: {method: POST, path: '/v1/charges?duplicates=reject'}%[5]s}
  charge: {<<: *common, idempotency: keyed, request: {method: POST, path: /v1/charges}}
  void: {<<: *common, idempotency: natural, request: {method: POST, path: /v1/voids}}
`

// inquiryText is longer to settle than the gateway's reads lag.
const inquiryText = `, inquiry: {request: {method: GET, path: '/v1/charges?reference={key}'}, answers: [200], ` +
	`succeeded: 'body.data.exists(c, c.status == "succeeded")', pending: 'body.data.exists(c, c.status == "pending")', ` +
	`failed: 'size(body.data) > 0 && body.data.all(c, c.status == "failed")', not_found: 'size(body.data) == 0', ` +
	`settle: 3s, after_not_found: resend, backoff: {base: 500ms, cap: 2s}, give_up_after: 60s}`

// rig is everything that is taken apart.
type rig struct {
	t      *testing.T
	server *redistest.Redis
	door   *door
	shop   *shop
	slots  []*slot
	direct *ledger.Ledger // for the judge: past the links
	specs  map[jobs.Kind]jobs.KindSpec
	moments
}

func newRig(t *testing.T, seed uint64) *rig {
	t.Helper()
	r := &rig{t: t, specs: map[jobs.Kind]jobs.KindSpec{}, moments: moments{done: map[action]int{}}}
	// Fsync always: with everysec a slow disk makes Redis answer before it writes, and
	// kill -9 would lose what was answered.
	r.server = redistest.Server(t, redistest.WithConfig("appendfsync always"))
	r.door = newDoor(sandbox.New(sandbox.Options{Seed: seed}))
	gateway := httptest.NewServer(r.door)
	t.Cleanup(func() {
		gateway.CloseClientConnections()
		gateway.Close()
		r.door.gateway.Stop()
	})

	inquiry := ""
	if withInquiry {
		inquiry = inquiryText
	}
	folder := *keepLogs
	if folder == "" {
		folder = t.TempDir()
	}
	text := fmt.Sprintf(configText, r.server.URL(), namespace, gateway.URL, timeout, inquiry)
	c, err := config.Parse("redrive.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.KindSpecs() {
		r.specs[s.Kind] = s
	}
	file := filepath.Join(folder, "redrive.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r.direct = connect(t, r.server.URL())
	link := newLink(t, "shop", r.server.Addr())
	r.shop = &shop{ledger: connect(t, link.url()), link: link, specs: r.specs, baseURL: gateway.URL, said: t.Logf,
		client: &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true,
			DialContext: (&net.Dialer{Timeout: patience}).DialContext}},
		book: &orderBook{draw: rand.New(rand.NewPCG(seed, 2))}, room: make(chan struct{}, 8), counts: map[string]int{}}
	for i := range workers {
		r.slots = append(r.slots, newSlot(t, i, folder, file, newLink(t, linkName(i), r.server.Addr())))
	}
	r.await(30*time.Second, "the workers to publish their kinds", func() bool {
		kinds, err := r.direct.Kinds(t.Context())
		return err == nil && len(kinds) == len(classOf)
	})
	return r
}

func connect(t *testing.T, url string) *ledger.Ledger {
	t.Helper()
	rdb, err := ledger.Connect(url, ledger.ConnectOptions{PoolSize: 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rdb.Close() })
	return ledger.New(rdb, namespace)
}

// await polls until ok, and fails the test when the bound has passed.
func (r *rig) await(bound time.Duration, what string, ok func() bool) {
	r.t.Helper()
	if !poll(bound, ok) {
		r.t.Fatalf("waited %s for %s", bound, what)
	}
}

func poll(bound time.Duration, ok func() bool) bool {
	for deadline := time.Now().Add(bound); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// play lets the shop trade while the script runs. The script's clock stands still while
// a tail is cut, which takes as long as it takes: what lasts must not last longer for it.
func (r *rig) play(script []step, span time.Duration, perSecond int) {
	r.misbehave(calm)
	began := time.Now()
	trading, closeShop := context.WithTimeout(r.t.Context(), 2*span+time.Minute)
	defer closeShop()
	life, giveUp := context.WithTimeout(r.t.Context(), 2*span+2*time.Minute)
	defer giveUp()
	closed := make(chan struct{}) // closed by the shop's goroutine, which ends with trading
	go func() {
		defer close(closed)
		r.shop.trade(trading, life, perSecond)
	}()
	var later []step // ends of what lasts, in no order
	var stood time.Duration
	clock := func() time.Duration { return time.Since(began) - stood }
	for len(script) > 0 || len(later) > 0 {
		s, end := r.nextStep(&script, &later, clock(), span)
		if wait := s.at - clock(); wait > 0 {
			time.Sleep(wait)
		}
		if end {
			r.undo(s)
			continue
		}
		from := time.Now()
		r.do(s)
		if s.do == cutTail {
			stood += time.Since(from)
		}
		if s.span > 0 && s.do != killRedis && s.do != cutTail {
			s.at = clock() + s.span
			later = append(later, s)
		}
	}
	if wait := span - clock(); wait > 0 {
		time.Sleep(wait)
	}
	closeShop()
	<-closed
	r.shop.batches.Wait()
}

// nextStep takes the earliest step, or the earliest end of one, which comes before a step
// that is overdue. At the end of the
// script everything that lasts ends, but for a freeze: one that is over too early
// would not be past the lease.
func (r *rig) nextStep(script, later *[]step, now, span time.Duration) (s step, end bool) {
	first := -1
	for i := range *later {
		l := &(*later)[i]
		if l.do != freeze {
			l.at = min(l.at, span)
		}
		if first < 0 || l.at < (*later)[first].at {
			first = i
		}
	}
	if first >= 0 && (len(*script) == 0 || (*later)[first].at <= max((*script)[0].at, now)) {
		s = (*later)[first]
		*later = append((*later)[:first], (*later)[first+1:]...)
		return s, true
	}
	s = (*script)[0]
	*script = (*script)[1:]
	return s, false
}

func (r *rig) do(s step) {
	r.note(s.do)
	w := r.slots[s.worker]
	switch s.do {
	case killWorker:
		at := time.Now()
		if w.kill() {
			r.kill(at)
		}
		w.start()
	case stopWorker:
		if wrong := w.stop(); wrong != "" {
			r.shop.breach("%s", wrong)
			w.kill()
		}
		w.start()
	case freeze:
		w.running.proc.Signal(syscall.SIGSTOP)
	case killRedis:
		from := time.Now()
		r.server.Kill9()
		time.Sleep(s.span)
		r.server.Restart()
		r.outage(from, time.Now())
	case cutLink:
		r.linkOf(s).cut()
	case slowLink:
		r.linkOf(s).poison(toxicSlow)
	case muteLink:
		r.linkOf(s).poison(toxicMute)
	case gateFault:
		r.misbehave(s.fault)
	case cutTail:
		r.cutTail(s)
	}
}

// linkOf: the shop's link is cut along with the first worker's.
func (r *rig) linkOf(s step) *link {
	if s.worker == 0 && s.at.Milliseconds()%2 == 0 {
		return r.shop.link
	}
	return r.slots[s.worker].link
}

func (r *rig) undo(s step) {
	switch s.do {
	case freeze:
		// To one that was killed meanwhile this is nothing.
		r.slots[s.worker].running.proc.Signal(syscall.SIGCONT)
	case gateFault:
		r.misbehave(calm)
	default:
		r.mend(r.slots[s.worker])
	}
}

// mend makes the links of the shop and of these workers whole.
func (r *rig) mend(slots ...*slot) {
	links := []*link{r.shop.link}
	for _, s := range slots {
		links = append(links, s.link)
	}
	for _, l := range links {
		l.cure("slow")
		l.cure("mute")
		l.up()
	}
}

// misbehave sets the gateway's fault as anybody would.
func (r *rig) misbehave(fault string) {
	req, err := http.NewRequest(http.MethodPut, r.shop.baseURL+"/_sandbox/fault", strings.NewReader(fault))
	if err != nil {
		r.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		r.t.Fatalf("set fault %s: %s", fault, res.Status)
	}
}

// openStates are those of an operation that is not at rest.
func openStates() []jobs.State {
	states := []jobs.State{jobs.Waiting, jobs.Released, jobs.Attempting}
	if withInquiry {
		states = append(states, jobs.Unresolved)
	}
	return states
}

// open counts the operations that are not at rest, of some kinds or of all. The
// counts are read at one instant; a list could miss what moves on meanwhile.
func (r *rig) open(kinds ...jobs.Kind) (int64, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	counts, err := r.direct.Counts(ctx, dependency)
	n := int64(0)
	for _, c := range counts {
		if slices.Contains(openStates(), c.State) && (len(kinds) == 0 || slices.Contains(kinds, c.Kind)) {
			n += c.N
		}
	}
	return n, err
}

// rest waits until everything is at rest, on the gateway's side too.
func (r *rig) rest() (took time.Duration, err error) {
	r.misbehave(`{"mode":"none"}`)
	began := time.Now()
	open := int64(0)
	if !poll(restWithin, func() bool {
		open, err = r.open()
		return err == nil && open == 0 && r.door.busy() == 0
	}) {
		return time.Since(began), errors.Join(err, fmt.Errorf("%d operations and %d requests are not at rest after %s", open, r.door.busy(), restWithin))
	}
	return time.Since(began), nil
}
