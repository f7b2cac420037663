package worker

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"redrive/internal/jobs"
	"redrive/internal/ledger"
)

// taskType is the asynq type of every task.
const taskType = "attempt"

// delivery is a [ledger.Delivery] with what its handler wants to know of the
// release. It travels in an asynq task: the name and number as the task's id, the
// rest as its payload, '<lane> <losses> <due in ms since the epoch>'.
type delivery struct {
	ledger.Delivery
}

// taskID is unique per delivery, so that putting one on the conveyor twice, after
// a lost reply, puts it there once.
func (d delivery) taskID() string { return d.ID.String() + "#" + strconv.FormatInt(d.Number, 10) }

func (d delivery) payload() []byte {
	b := append([]byte(d.Lane), ' ')
	b = strconv.AppendInt(b, int64(d.Losses), 10)
	b = append(b, ' ')
	return strconv.AppendInt(b, d.DueAt.UnixMilli(), 10)
}

// parseDelivery reads what [delivery.taskID] and [delivery.payload] wrote.
func parseDelivery(taskID string, payload []byte) (delivery, error) {
	d, err := parseTaskID(taskID)
	if err != nil {
		return d, err
	}
	f := strings.Split(string(payload), " ")
	if len(f) != 3 || f[0] != string(ledger.LaneFirst) && f[0] != string(ledger.LaneRetry) {
		return d, fmt.Errorf("task %q: its payload is none of ours", taskID)
	}
	losses, err := strconv.Atoi(f[1])
	if err != nil || losses < 0 {
		return d, fmt.Errorf("task %q: its losses are no number", taskID)
	}
	due, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil {
		return d, fmt.Errorf("task %q: its due instant is no number", taskID)
	}
	d.Lane, d.Losses, d.DueAt = ledger.Lane(f[0]), losses, time.UnixMilli(due)
	return d, nil
}

func parseTaskID(taskID string) (delivery, error) {
	at := strings.LastIndexByte(taskID, '#')
	if at < 0 {
		return delivery{}, fmt.Errorf("task %q: no delivery number in its id", taskID)
	}
	id, err := jobs.ParseID(taskID[:at])
	if err != nil {
		return delivery{}, fmt.Errorf("task %q: %w", taskID, err)
	}
	number, err := strconv.ParseInt(taskID[at+1:], 10, 64)
	if err != nil || number < 1 {
		return delivery{}, fmt.Errorf("task %q: its delivery number is none", taskID)
	}
	return delivery{ledger.Delivery{ID: id, Number: number}}, nil
}

// idField is the number of the id in asynq's TaskMessage, a protocol buffer.
const idField = 3

// taskIDOf reads the id out of a task as asynq stores it. asynq keeps its decoder
// to itself, and a task that it was never handed has to be given back all the same.
func taskIDOf(message string) (string, error) {
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
				return "", fmt.Errorf("task of %d bytes is cut short", len(message))
			}
			if tag>>3 == idField {
				return string(b[:value]), nil
			}
			b = b[value:]
		default:
			return "", fmt.Errorf("task of %d bytes has a field of wire type %d", len(message), tag&7)
		}
	}
	return "", fmt.Errorf("task of %d bytes has no id", len(message))
}
