// Package secret reads secrets from where they are kept, when they are needed,
// and takes them out of what is written down.
package secret

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
)

// maxSize is the size in bytes above which a file is not taken for a secret.
const maxSize = 64 << 10

// Source is the place of one secret: in a file, or in this process's environment.
type Source struct {
	Name string
	Path string        // path of the file; a line break at its end is not part of the secret
	Env  string        // the variable, when Path is ""
	TTL  time.Duration // how long a value that was read may be used; 0: for one attempt
}

// read takes the secret from its place.
func (s Source) read() (string, error) {
	if s.Path == "" {
		value, set := os.LookupEnv(s.Env)
		if !set {
			return "", fault.New(fault.Unavailable, "read secret %s: the environment has no %s", s.Name, s.Env)
		}
		return value, nil
	}
	content, err := file.Read(s.Path, maxSize)
	if errors.Is(err, file.ErrSize) {
		return "", fault.New(fault.Unavailable, "read secret %s: %s has more than %d bytes", s.Name, s.Path, maxSize)
	}
	if err != nil {
		return "", fault.New(fault.Unavailable, "read secret %s: %w", s.Name, err)
	}
	return strings.TrimRight(string(content), "\r\n"), nil
}

// Values are secrets by name.
type Values map[string]string

// Store reads secrets and remembers them for their TTL. Safe for concurrent use.
type Store struct {
	sources []Source

	mu       sync.Mutex
	read     map[string]reading
	redacted Values    // what redactor searches for
	redactor *Redactor // made last; secrets change rarely
}

// reading is a value and until when it may be used.
type reading struct {
	value string
	until time.Time
}

// NewStore makes a store of secrets.
func NewStore(sources ...Source) *Store {
	return &Store{sources: sources, read: map[string]reading{}}
}

// Values reads every secret that is not remembered. The error is fault.Unavailable and names the
// secret.
func (s *Store) Values(now time.Time) (Values, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	values := make(Values, len(s.sources))
	for _, source := range s.sources {
		known, ok := s.read[source.Name]
		if !ok || !now.Before(known.until) {
			value, err := source.read()
			if err != nil {
				return nil, err
			}
			known = reading{value, now.Add(source.TTL)}
			s.read[source.Name] = known
		}
		values[source.Name] = known.value
	}
	return values, nil
}

// Redactor returns the redactor of values, which is made once as long as they are the same.
func (s *Store) Redactor(v Values) *Redactor {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.redactor == nil || !maps.Equal(s.redacted, v) {
		s.redacted, s.redactor = v, v.Redactor()
	}
	return s.redactor
}

// Forget makes the next Values read everything again: after a target refused a secret.
func (s *Store) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.read)
}

// Mark replaces a secret in text.
func Mark(name string) string { return fmt.Sprintf("[secret:%s]", name) }
