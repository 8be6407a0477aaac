// Package ssh reaches accounts on other machines and runs commands there.
//
// A Pool keeps one connection to each account and shares it between the steps of a host: a step
// borrows a Host, runs commands and connects to ports over channels of the one connection, and gives
// it back. A connection that was not used for a minute is closed. At most 64 are being made at a time.
// A host that has not answered for three intervals of 15 s counts as lost, since a network may swallow
// everything without telling either side.
//
// Who answers is always checked: a host key must be the one that the pipeline names, or be in the
// file of known hosts, which is read as OpenSSH reads it, authorities of certificates included. A host is
// asked for the kinds of keys that are known, then for ed25519, which documentation has people compare.
// Nothing is trusted on first sight, and nothing turns the check off. Keys, an
// agent and certificates authenticate; passwords do not. The user's own ~/.ssh/config is not read,
// because where a deployment goes must not depend on whose laptop it runs on.
//
// An error is permanent (fault.Permanent) when trying again cannot help: an unknown or changed host
// key, an account that accepts none of the keys. Everything else is about the way to the host.
package ssh
