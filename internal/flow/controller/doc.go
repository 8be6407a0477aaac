// Package controller is the role flow: it observes EventFlows and the objects that they need, creates the missing parts between
// source and sink, keeps the status of each flow true, and removes its creations when the last flow leaves.
package controller
