package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"redrive"
)

// background stands for the context of the request that an example serves.
var background = context.Background()

// A service makes one client and keeps it. It usually reads the worker's own file, by
// ConfigFile; here all is said in code.
func ExampleNew() {
	stage := newStage()
	defer stage.end()

	client, err := redrive.New(background, redrive.Options{
		RedisURL: stage.redisURL(),
		Dependencies: []redrive.Dependency{
			{Name: "payrail", BaseURL: stage.gateway.URL, Timeout: 2 * time.Second},
		},
		Kinds: []redrive.Kind{
			{Name: "charge", Dependency: "payrail", Path: "/v1/charges", Class: redrive.Keyed},
		},
		Name: "checkout",
	})
	if err != nil {
		log.Fatal(err) // it names the option that is wrong
	}
	defer client.Close()
	fmt.Println("ready")
	// Output: ready
}

// A client without Log is silent. go-redis has one logger for the whole process, which tells
// of each connection that fails: whoever wants that quiet too says so once, before all else.
func ExampleOptions_silent() {
	logging.Disable()

	client, err := redrive.New(background, redrive.Options{RedisURL: "redis://127.0.0.1:6379/0", ConfigFile: "redrive.yaml"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
}

// What the customer hears depends on the error.
func ExampleClient_Do() {
	stage := newStage()
	defer stage.end()
	client := stage.newClient(nil)

	for _, order := range []string{"order-1", "order-2-declined", "order-3-lost"} {
		reply, err := client.Do(background, redrive.Operation{
			Kind:   "charge",
			Key:    order,
			Body:   fmt.Appendf(nil, `{"amount":4200,"currency":"GBP","reference":%q}`, order),
			Within: 2 * time.Hour,
		}, nil)
		var declined *redrive.Permanent
		var deferred *redrive.Deferred
		switch {
		case err == nil:
			fmt.Printf("%s: charged, %s\n", order, reply.Body)
		case errors.As(err, &declined):
			fmt.Printf("%s: declined, status %d\n", order, declined.Reply.Status)
		case errors.As(err, &deferred):
			fmt.Printf("%s: under way, this attempt is %s\n", order, deferred.Outcome)
		default:
			fmt.Println(order, err)
		}
	}
	// Output:
	// order-1: charged, {"id":"ch_1"}
	// order-2-declined: declined, status 402
	// order-3-lost: under way, this attempt is unknown
}

// A gateway's SDK makes the call: once, under the headers of the attempt.
func ExampleClient_Do_ownSender() {
	stage := newStage()
	defer stage.end()
	client := stage.newClient(nil)

	send := func(ctx context.Context, a *redrive.Attempt) (redrive.Reply, error) {
		fmt.Println("idempotency key:", a.IdempotencyKey)
		return redrive.Reply{Status: http.StatusCreated, Body: []byte(`{"id":"ch_7"}`)}, nil
	}
	reply, err := client.Do(background, redrive.Operation{Kind: "charge", Key: "order-1", Body: []byte(`{"amount":4200}`)}, send)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(reply.Status)
	// Output:
	// idempotency key: charge:order-1
	// 201
}

// A read is repeated at once, while that promises something.
func ExampleClient_Call() {
	stage := newStage()
	defer stage.end()
	client := stage.newClient(nil)

	for _, charge := range []string{"ch_1", "nobody"} {
		reply, err := client.Call(background, "payrail", func(ctx context.Context) (redrive.Reply, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, stage.gateway.URL+"/v1/charges/"+charge, nil)
			if err != nil {
				return redrive.Reply{}, err
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return redrive.Reply{}, err
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			return redrive.Reply{Status: resp.StatusCode, Header: resp.Header, Body: body}, err
		})
		var stopped *redrive.Stopped
		if errors.As(err, &stopped) {
			fmt.Printf("%s: %s after %d try, status %d\n", charge, stopped.Reason, stopped.Tries, reply.Status)
			continue
		}
		fmt.Printf("%s: %s\n", charge, reply.Body)
	}
	// Output:
	// ch_1: {"id":"ch_1"}
	// nobody: permanent after 1 try, status 404
}

// What somebody else has sent is handed over with what was seen of it.
func ExampleClient_Submit() {
	stage := newStage()
	defer stage.end()
	client := stage.newClient(nil)

	charge := redrive.Operation{
		Kind:           "charge",
		Key:            "order-1",
		Body:           []byte(`{"amount":4200,"currency":"GBP"}`),
		IdempotencyKey: "order-1-charge",
		Within:         time.Hour,
		Attempted:      &redrive.Attempted{ID: "b1946ac9", Outcome: redrive.Unknown, FirstSentAt: time.Now(), Class: "timeout"},
	}
	for range 2 { // submitting again is safe
		receipt, err := client.Submit(background, charge)
		if err != nil {
			log.Fatal(err) // its fate is unknown: submit it again
		}
		fmt.Println(receipt.Answer, receipt.State, receipt.Applied)
	}
	// Output:
	// accepted waiting unknown
	// duplicate waiting unknown
}

// Each has its own answer, in order.
func ExampleClient_SubmitMany() {
	stage := newStage()
	defer stage.end()
	client := stage.newClient(nil)

	receipts, err := client.SubmitMany(background, []redrive.Operation{
		{Kind: "charge", Key: "order-1", Body: []byte(`{"amount":4200}`)},
		{Kind: "charge", Key: "order-1", Body: []byte(`{"amount":9999}`)},
		{Kind: "charge", Key: "order 2", Body: []byte(`{"amount":4200}`)},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range receipts {
		fmt.Printf("%s: %s %v\n", r.Key, r.Answer, r.Differs)
	}
	// Output:
	// order-1: accepted []
	// order-1: conflict [body]
	// order 2: refused []
}

// Wait blocks until the operation has ended, whoever ends it: here it is cancelled before
// a worker has seen it.
func ExampleClient_Wait() {
	stage := newStage()
	defer stage.end()
	client := stage.newClient(nil)

	if _, err := client.Submit(background, redrive.Operation{Kind: "charge", Key: "order-1", Body: []byte(`{"amount":4200}`)}); err != nil {
		log.Fatal(err)
	}
	cancelled := make(chan error, 1)
	go func() {
		_, err := client.Cancel(background, "charge", "order-1", "the customer changed their mind")
		cancelled <- err
	}()
	record, err := client.Wait(background, "charge", "order-1")
	if err = errors.Join(err, <-cancelled); err != nil {
		log.Fatal(err)
	}
	fmt.Println(record.State, record.Applied)
	// Output: cancelled no
}

// Events follows everything. Its cursor, kept, is where a later process goes on.
func ExampleClient_Events() {
	stage := newStage()
	defer stage.end()
	client := stage.newClient(nil)

	ctx, cancel := context.WithCancel(background)
	submitting := make(chan struct{})
	go func() {
		defer close(submitting)
		for i := 0; ctx.Err() == nil; i++ { // orders come in
			_, _ = client.Submit(ctx, redrive.Operation{Kind: "charge", Key: fmt.Sprint("order-", i), Body: []byte(`{"amount":4200}`)})
			time.Sleep(time.Millisecond)
		}
	}()
	for event, err := range client.Events(ctx, "") { // "": from now on
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Dependency, event.Kind, event.State, event.Cursor != "")
		break
	}
	cancel()
	<-submitting
	// Output: payrail charge waiting true
}

// Calls that are not handed over count as first attempts: they fill the retry budget, and
// feed the breaker.
func ExampleClient_Transport() {
	stage := newStage()
	defer stage.end()
	client := stage.newClient(nil)

	own := &http.Client{Transport: client.Transport("payrail", nil), Timeout: 3 * time.Second}
	resp, err := own.Get(stage.gateway.URL + "/v1/charges/ch_1")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output: 200 OK
}

// With a spool a hand-over survives that Redis is away as well: it is delivered when
// Redis is back.
func ExampleHandoverError() {
	stage := newStage()
	defer stage.end()
	folder, err := os.MkdirTemp("", "spool")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	client := stage.newClient(func(o *redrive.Options) { o.Spool = filepath.Join(folder, "checkout.jsonl") })

	stage.redis.Close()
	_, err = client.Do(background, redrive.Operation{Kind: "charge", Key: "order-3-lost", Body: []byte(`{"reference":"order-3-lost"}`)}, nil)
	var kept *redrive.HandoverError
	if errors.As(err, &kept) {
		fmt.Println("spooled:", kept.Spooled, kept.Outcome)
	}
	// Output: spooled: true unknown
}
