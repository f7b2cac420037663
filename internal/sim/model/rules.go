package model

import "reflect"

// Rules are the protections of the design, each of which can be taken away. A
// field that is true takes its rule away: the zero value is the design.
type Rules struct {
	WriteAhead                 bool `rule:"an attempt whose worker is lost is unknown, because it was written before it was sent"`
	ClaimByRunID               bool `rule:"the grant is repeated to the run id that holds the claim and to no other"`
	SameRunSameGrant           bool `rule:"the run id that holds the claim gets its grant again"`
	BeginOnlyReleased          bool `rule:"begin grants only in state released"`
	BeginSameDelivery          bool `rule:"begin grants only to the present delivery"`
	AbandonTakesDeliveryBack   bool `rule:"abandon of a released delivery makes a begin applied later stale"`
	AbandonClosesClaim         bool `rule:"abandon closes the attempt of its own run as not sent"`
	SettleOnEveryEnd           bool `rule:"whatever leaves waiting, released or attempting for an end is settled first"`
	LaterRefusalSettlesNothing bool `rule:"a refusal of a later attempt says nothing about an earlier unknown one"`
	MergeNeverDropped          bool `rule:"a duplicate submission that reports a send is merged in every state"`
	MergeTakesDeliveryBack     bool `rule:"a merged send makes a released delivery stale"`
	MergeResetsNotFound        bool `rule:"a merged send sets the count of not-founds to 0"`
	MergeStartsSettleAnew      bool `rule:"the settle time of a reported send counts from its report"`
	SafeLookedAtByBegin        bool `rule:"begin looks whether a resend is safe now"`
	SafeLookedAtBySweep        bool `rule:"the sweep ends the wait of what is not safe any more"`
	SafeUntil                  bool `rule:"a keyed resend is safe only until safe_until"`
	StoredClassInForce         bool `rule:"a configured class stronger than the stored one does not count"`
	ConfiguredClassInForce     bool `rule:"a configured class weaker than the stored one counts"`
	SameTarget                 bool `rule:"a resend to another target or credential than an unknown attempt's is not safe"`
	SameKey                    bool `rule:"a resend is not safe when an unknown attempt carried no key"`
	NotFoundTwice              bool `rule:"not found counts only when it was seen twice"`
	NotFoundSpaced             bool `rule:"the second not-found is asked max(settle, 5 s) after the first"`
	NotFoundWrittenOnce        bool `rule:"an inquiry's answer is counted once"`
	NotFoundAfterSettle        bool `rule:"a not-found asked before the settle time is over does not count"`
	NotFoundAttemptsUnchanged  bool `rule:"an answer counts only if the list of attempts is what it was when it was asked"`
	EnteringResetsNotFound     bool `rule:"begin and entering unresolved set the count of not-founds to 0"`
	OtherAnswerResetsNotFound  bool `rule:"any other answer sets the count of not-founds to 0"`
	SettleFromLeaseEnd         bool `rule:"settle time counts from the lease end, too"`
	ActedNotSettledByNotFound  bool `rule:"not found never settles what the other side took"`
	FailedOnlyOfAllAttempts    bool `rule:"a failed counts like a not-found: after the settle time, attempts unchanged"`
	AskWhereItWasSent          bool `rule:"not found and failed count only from where the unknown attempts went"`
	ResultOncePerRun           bool `rule:"a result recorded under this run id is not recorded again"`
	FinishFencedByRun          bool `rule:"only the run that holds the claim moves the operation on; others are late"`
	LateSuccessKept            bool `rule:"a late success of another attempt is kept while one is in flight"`
	SuccessNeverOverwritten    bool `rule:"succeeded stays"`
	SendBy                     bool `rule:"no first byte after the send window"`
	ClockBeforeBegin           bool `rule:"the send window counts from before begin was called"`
	DeadlineAtFirstByte        bool `rule:"no first byte after the deadline"`
	DeadlineAtBegin            bool `rule:"begin looks at the deadline"`
	NoBytesAfterLease          bool `rule:"the kernel delivers nothing after the lease (TCP_USER_TIMEOUT, SetLinger)"`
	UnknownRefusedToPeople     bool `rule:"requeue, cancel and discard of a dead letter are refused while its outcome is unknown and a resend is not safe"`
	ResolveAfterSettle         bool `rule:"resolve as not applied is refused before the settle time of what is unknown is over"`
	MarkNeverExpires           bool `rule:"a record with an unknown outcome never expires"`
}

// Rule is one switch of [Rules].
type Rule struct {
	Name string // the field's name
	Text string // what the rule says
}

// AllRules lists every switch in the order of [Rules].
func AllRules() []Rule {
	t := reflect.TypeFor[Rules]()
	rules := make([]Rule, t.NumField())
	for n := range rules {
		rules[n] = Rule{Name: t.Field(n).Name, Text: t.Field(n).Tag.Get("rule")}
	}
	return rules
}

// Without returns the design without the named rules. It panics on a name that
// is none of [AllRules].
func Without(names ...string) Rules {
	var r Rules
	for _, name := range names {
		f := reflect.ValueOf(&r).Elem().FieldByName(name)
		if !f.IsValid() {
			panic("model: no rule is called " + name)
		}
		f.SetBool(true)
	}
	return r
}
