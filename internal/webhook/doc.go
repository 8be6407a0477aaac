// Package webhook asks one HTTP question and judges the answer: templates, response
// rules, signatures, and the guard that keeps requests out of private networks.
//
// A Request is compiled once from configuration. For each attempt it is rendered
// with the action's data and resolved secrets into a Call, a Client sends that,
// and the Exchange says what went over the wire and when, with every secret
// taken out. Judge then returns what the answer means. Nothing here decides about
// retries; the handler does.
package webhook
