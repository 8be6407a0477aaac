package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/internal/build"
)

// observe notes the pod's reports, and cancels with the reason when it has to end.
func (a *podAttempt) observe(ctx context.Context, cancel context.CancelCauseFunc) {
	since := map[string]trouble{} // kinds of trouble
	began, troubled := false, false
	for {
		now := a.runner.seen.look(a.uid)
		var again <-chan time.Time
		switch {
		case now.gone:
			cancel(&lossError{"Deleted: the pod is gone", began})
			return
		case now.trouble != nil:
			if !troubled {
				_ = a.noteOnce(fmt.Sprintf("watching pods was interrupted: %v; it resumes by itself", now.trouble)) // the log fails elsewhere too
			}
		}
		troubled = now.trouble != nil
		if now.pod != nil {
			began = began || now.pod.began()
			v := judge(now.pod, a.runner.PullDeadline)
			if v.Outcome == fine {
				v = judgeWarnings(now.pod, now.warnings)
			}
			for _, text := range now.warnings {
				_ = a.note(text) // the log fails elsewhere too
			}
			timer, end := a.act(v, began, since)
			if end != nil {
				cancel(end)
				return
			}
			again = timer
		} else {
			again = time.After(unseenPause)
		}
		select {
		case <-now.changed:
		case <-again:
			if now.pod == nil && a.missing(ctx) {
				cancel(&lossError{"Deleted: the pod is gone", began})
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// missing reports whether a pod that was never seen is gone: it was deleted while watching was interrupted.
func (a *podAttempt) missing(ctx context.Context) bool {
	found, err := a.runner.pods.Get(ctx, a.pod.name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && string(found.GetUID()) != a.uid
}

// note notes the pod's reports, but for objects that are missing only for a moment: the pod's own Secret belongs to
// the pod, and is made after it.
func (a *podAttempt) note(text string) error {
	text = a.run.Mask.Text(text)
	if strings.HasPrefix(text, podConfig) && strings.Contains(text, a.pod.name) {
		return nil
	}
	return a.noteOnce(text)
}

// act notes a verdict. It returns why the pod ends, or when it has to be judged again.
func (a *podAttempt) act(v verdict, began bool, since map[string]trouble) (<-chan time.Time, error) {
	a.waits = ""
	if v.Outcome == fine {
		return nil, nil
	}
	v.Text = a.run.Mask.Text(v.Text)
	switch v.Outcome {
	case lost:
		return nil, &lossError{v.Text, began}
	case failed:
		return nil, faultOf(v.Text, v.OfStep)
	}
	if !began {
		a.waits = v.Text
	}
	if err := a.note(v.Text); err != nil {
		return nil, err
	}
	if v.Patience == 0 {
		return nil, nil
	}
	kind, _, _ := strings.Cut(v.Text, ":")
	seen := since[kind]
	if seen.since.IsZero() {
		seen.since = time.Now()
	}
	seen.ofStep = seen.ofStep || v.OfStep // what follows an error, such as a back-off, does not repeat its text
	since[kind] = seen
	left := v.Patience - time.Since(seen.since)
	if left <= 0 {
		return nil, faultOf(fmt.Sprintf("%s (for %s)", v.Text, v.Patience), seen.ofStep)
	}
	return time.After(left), nil
}

// trouble is a kind of trouble that a pod has.
type trouble struct {
	since  time.Time
	ofStep bool // it is the step's own fault
}

// faultOf returns the error of an attempt that has to end.
func faultOf(text string, ofStep bool) error {
	if ofStep {
		return &build.StepError{Text: text}
	}
	return errors.New(text)
}

// maxNotes bounds the notes about one pod.
const maxNotes = 50

// noteOnce notes a text that was not noted of this pod before.
func (a *podAttempt) noteOnce(text string) error {
	a.mutex.Lock()
	before := a.watched[text] || len(a.watched) >= maxNotes
	a.watched[text] = true
	a.mutex.Unlock()
	if before {
		return nil
	}
	return a.sink.Note(text)
}
