package awstest

import (
	"crypto/md5" //nolint:gosec // SQS' checksum
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/aws"
)

// visibility is the time for which a received message is hidden from other receivers.
const visibility = 100 * time.Millisecond

type queue struct {
	messages []*message
	made     int
}

type message struct {
	id, body string
	receipt  string // receipt of the last delivery
	hidden   time.Time
}

// noQueue is the answer of SQS for a queue that does not exist, in the words of both protocols.
var noQueue = refusal{code: "QueueDoesNotExist", old: "AWS.SimpleQueueService.NonExistentQueue"}

// Queue makes a queue and returns its URL.
func (s *Server) Queue(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	url := s.URL + "/" + account + "/" + name
	s.queues[url] = &queue{}
	return url
}

// Put adds a message to a queue.
func (s *Server) Put(url, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues[url].put(body)
	s.notify()
}

func (q *queue) put(body string) *message {
	q.made++
	m := &message{id: fmt.Sprintf("message-%d", q.made), body: body}
	q.messages = append(q.messages, m)
	return m
}

// Messages lists the bodies that are in a queue, received or not, the oldest first.
func (s *Server) Messages(url string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var bodies []string
	for _, m := range s.queues[url].messages {
		bodies = append(bodies, m.body)
	}
	return bodies
}

// Changed returns a channel that is closed at the next change.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *Server) sendMessage(r *http.Request) (any, *refusal) {
	in, wrong := read[struct{ QueueURL, MessageBody string }](r)
	if wrong != nil {
		return nil, wrong
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[in.QueueURL]
	switch {
	case q == nil:
		return nil, &noQueue
	case len(in.MessageBody) > aws.MaxMessage:
		return nil, &refusal{code: "InvalidParameterValue"}
	}
	m := q.put(in.MessageBody)
	s.notify()
	return map[string]string{"MessageId": m.id, "MD5OfMessageBody": sum(m.body)}, nil
}

func sum(body string) string {
	digest := md5.Sum([]byte(body)) //nolint:gosec // SQS' checksum
	return hex.EncodeToString(digest[:])
}

func (s *Server) receiveMessage(r *http.Request) (any, *refusal) {
	in, wrong := read[struct {
		QueueURL                             string
		MaxNumberOfMessages, WaitTimeSeconds int
	}](r)
	if wrong != nil {
		return nil, wrong
	}
	until := time.After(time.Duration(in.WaitTimeSeconds) * time.Second)
	for {
		s.mu.Lock()
		q, changed := s.queues[in.QueueURL], s.changed
		if q == nil {
			s.mu.Unlock()
			return nil, &noQueue
		}
		got, again := q.take(max(1, in.MaxNumberOfMessages), time.Now())
		s.mu.Unlock()
		if len(got) > 0 {
			return map[string]any{"Messages": got}, nil
		}
		select {
		case <-changed:
		case <-again:
		case <-until:
			return map[string]any{}, nil
		case <-r.Context().Done():
			return map[string]any{}, nil
		}
	}
}

// take delivers visible messages; again is when hidden ones may be seen.
func (q *queue) take(most int, now time.Time) (got []map[string]string, again <-chan time.Time) {
	for _, m := range q.messages {
		if m.hidden.After(now) {
			again = time.After(visibility)
			continue
		}
		if len(got) == most {
			break
		}
		m.hidden = now.Add(visibility)
		m.receipt = fmt.Sprintf("%s/%d", m.id, now.UnixNano())
		got = append(got, map[string]string{"MessageId": m.id, "ReceiptHandle": m.receipt, "Body": m.body, "MD5OfBody": sum(m.body)})
	}
	return got, again
}

func (s *Server) deleteMessages(r *http.Request) (any, *refusal) {
	in, wrong := read[struct {
		QueueURL string
		Entries  []struct{ ID, ReceiptHandle string }
	}](r)
	if wrong != nil {
		return nil, wrong
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[in.QueueURL]
	if q == nil {
		return nil, &noQueue
	}
	var done []map[string]string
	for _, e := range in.Entries {
		q.messages = slices.DeleteFunc(q.messages, func(m *message) bool { return m.receipt == e.ReceiptHandle })
		done = append(done, map[string]string{"Id": e.ID})
	}
	s.notify()
	return map[string]any{"Successful": done, "Failed": []any{}}, nil
}

func (s *Server) queueAttributes(r *http.Request) (any, *refusal) {
	in, wrong := read[struct{ QueueURL string }](r)
	if wrong != nil {
		return nil, wrong
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues[in.QueueURL] == nil {
		return nil, &noQueue
	}
	return map[string]any{"Attributes": map[string]string{"QueueArn": "arn:aws:sqs:" + Region + ":" + account + ":queue"}}, nil
}
