// Package mask takes secrets out of stored and printed text. A Set holds the searched forms: each secret and what
// common encodings make of it. A Stream replaces it in bytes that arrive in pieces, wherever the pieces end.
//
// A secret that a program prints half to one stream and half to another is not
// found, and neither is one that it encrypts, compresses or encodes otherwise.
package mask
