package cloudevent

import (
	"mime"
	"net/http"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Bounds of requests.
const (
	MaxBatch      = 100  // events of a batch
	MaxDepth      = 100  // levels of objects and lists in the data of an event
	MaxAttribute  = 4096 // bytes of the value of an attribute
	MaxName       = 64   // bytes of the name of an extension
	MaxExtensions = 64   // extensions of an event
)

// mediaPrefix begins the media types of all formats of events. A request with any other type is in binary mode.
const mediaPrefix = "application/cloudevents"

// The formats that are read.
const (
	mediaEvent = mediaPrefix + "+json"
	mediaBatch = mediaPrefix + "-batch+json"
)

// Read returns the events of a request. batch reports whether it was in batched mode, which may have no events. The
// caller bounds the body. Errors are fault.Invalid, fault.BadMediaType and fault.TooLarge; then events is nil.
func Read(h http.Header, body []byte) (events []Event, batch bool, err error) {
	types := h.Values(contentType)
	if len(types) > 1 {
		return nil, false, fault.New(fault.Invalid, "the header %s is repeated", contentType)
	}
	if len(types) == 0 || !strings.HasPrefix(strings.ToLower(strings.TrimSpace(types[0])), mediaPrefix) {
		event, err := readBinary(h, body)
		return one(event, err)
	}
	media, parameters, err := mime.ParseMediaType(types[0])
	if err != nil {
		return nil, false, fault.New(fault.BadMediaType, "the header %s: not a media type", contentType)
	}
	if !isUnicode(parameters) {
		return nil, false, fault.New(fault.BadMediaType, "the header %s: events in JSON are in UTF-8", contentType)
	}
	switch media {
	case mediaEvent:
		event, err := readStructured(body)
		return one(event, err)
	case mediaBatch:
		events, err = readBatch(body)
		return events, true, err
	}
	return nil, false, fault.New(fault.BadMediaType, "the format of the event is not supported: want JSON or binary mode")
}

// one returns the results of Read for a single event.
func one(event Event, err error) ([]Event, bool, error) {
	if err != nil {
		return nil, false, err
	}
	return []Event{event}, false, nil
}

// isUnicode reports whether the parameters of a media type name no charset, or UTF-8 or the part of it that US-ASCII
// is.
func isUnicode(parameters map[string]string) bool {
	charset := strings.ToLower(parameters["charset"])
	return charset == "" || charset == "utf-8" || charset == "us-ascii"
}
