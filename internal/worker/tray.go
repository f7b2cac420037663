package worker

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

const (
	// taskType is the asynq type of every task.
	taskType = "attempt"
	// maxTray bounds what one task carries, and so what the loss of one delays.
	maxTray = 16
)

// tray is what one asynq task carries: deliveries that were released together. A
// task costs asynq and Redis the same whatever it carries.
//
// The task is named after its first delivery, 'kind/key#number', so that putting it
// into the queue twice, after a lost reply, puts it there once. Its payload has one
// line per delivery: 'kind/key#number lane losses due', due in ms since the epoch.
type tray []ledger.Delivery

// trays deals deliveries out to trays of at most size. Suspects get trays of their
// own, because they run one after the other.
func trays(deliveries []ledger.Delivery, size int) []tray {
	var out []tray
	var open [2]tray // of others, of suspects
	for _, d := range deliveries {
		t := &open[0]
		if d.Losses > 0 {
			t = &open[1]
		}
		if *t = append(*t, d); len(*t) == size {
			out, *t = append(out, *t), nil
		}
	}
	for _, t := range open {
		if len(t) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// suspects reports whether the tray carries suspects.
func (t tray) suspects() bool { return t[0].Losses > 0 }

func (t tray) taskID() string { return deliveryName(t[0]) }

func deliveryName(d ledger.Delivery) string {
	return d.ID.String() + "#" + strconv.FormatInt(d.Number, 10)
}

func (t tray) payload() []byte {
	var b bytes.Buffer
	for i, d := range t {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s %s %d %d", deliveryName(d), d.Lane, d.Losses, d.DueAt.UnixMilli())
	}
	return b.Bytes()
}

// parseTray reads what [tray.payload] wrote. It returns an error when one line is
// none of ours: then all of the task is not.
func parseTray(payload []byte) (tray, error) {
	var t tray
	for line := range strings.SplitSeq(string(payload), "\n") {
		d, err := parseDelivery(line)
		if err != nil {
			return nil, fmt.Errorf("task payload, line %d: %w", len(t)+1, err)
		}
		t = append(t, d)
	}
	if len(t) > maxTray {
		return nil, fmt.Errorf("task payload: %d deliveries, at most %d fit", len(t), maxTray)
	}
	return t, nil
}

func parseDelivery(line string) (d ledger.Delivery, err error) {
	f := strings.Split(line, " ")
	if len(f) != 4 {
		return d, fmt.Errorf("%d words instead of 4", len(f))
	}
	at := strings.LastIndexByte(f[0], '#')
	if at < 0 {
		return d, fmt.Errorf("%q has no delivery number", f[0])
	}
	if d.ID, err = jobs.ParseID(f[0][:at]); err != nil {
		return d, err
	}
	if d.Number, err = strconv.ParseInt(f[0][at+1:], 10, 64); err != nil || d.Number < 1 {
		return d, fmt.Errorf("%q is no delivery number", f[0][at+1:])
	}
	d.Lane = ledger.Lane(f[1])
	if !slices.Contains(ledger.Lanes, d.Lane) {
		return d, fmt.Errorf("%q is no lane", f[1])
	}
	if d.Losses, err = strconv.Atoi(f[2]); err != nil || d.Losses < 0 {
		return d, fmt.Errorf("%q is no number of losses", f[2])
	}
	due, err := strconv.ParseInt(f[3], 10, 64)
	if err != nil {
		return d, fmt.Errorf("%q is no instant", f[3])
	}
	d.DueAt = time.UnixMilli(due)
	return d, nil
}

// payloadField is the number of the payload in asynq's TaskMessage, a protocol buffer.
const payloadField = 2

// payloadOf reads the payload out of a task as asynq stores it. asynq keeps its
// decoder to itself, and a task must be weighed before asynq is handed it, and given
// back if it never is.
func payloadOf(message string) ([]byte, error) {
	b := []byte(message)
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			break
		}
		b = b[n:]
		value, n := binary.Uvarint(b) // the value itself, or the length of what follows
		if n <= 0 {
			break
		}
		b = b[n:]
		switch tag & 7 {
		case 0:
		case 2:
			if value > uint64(len(b)) {
				return nil, fmt.Errorf("task of %d bytes is cut short", len(message))
			}
			if tag>>3 == payloadField {
				return b[:value], nil
			}
			b = b[value:]
		default:
			return nil, fmt.Errorf("task of %d bytes has a field of wire type %d", len(message), tag&7)
		}
	}
	return nil, fmt.Errorf("task of %d bytes has no payload", len(message))
}

// trayOf reads the tray out of a task as asynq stores it.
func trayOf(message string) (tray, error) {
	payload, err := payloadOf(message)
	if err != nil {
		return nil, err
	}
	return parseTray(payload)
}
