// Package cloudevent reads CloudEvents 1.0 that arrive over HTTP: one in binary or structured mode, or a batch in the
// format JSON. Protobuf, Avro and other formats are refused. It follows version 1.0.2 of the specification, of its
// HTTP binding and of its JSON format, and is strict wherever these have a MUST, since two programs that read an
// event differently might route it to different places.
//
// Four rules are this package's own:
//
//   - A header's value that its sender has not percent-encoded is read literally where it cannot be meant otherwise. Widely used senders
//     encode nothing.
//   - A JSON key may occur once, in the event and everywhere in its data: which of two values counts would depend on
//     the reader.
//   - An empty body in binary mode means that data is absent: this mode cannot express the difference.
//   - Attributes, extensions, batches and the depth of data have bounds.
//
// Errors have the code fault.Invalid for a malformed request, fault.BadMediaType for a format or charset that is not
// supported, and fault.TooLarge for a batch of too many events. They name the event of a batch, from 0, and the
// attribute, but never repeat a value: it may be secret, and errors reach logs.
package cloudevent
