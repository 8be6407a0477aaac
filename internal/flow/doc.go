// Package flow decides about EventFlows: the state of a flow's parts, the objects that it should have, and its conditions. It reads
// and writes nothing; package controller does.
//
// Objects of other projects are read as unstructured data, so that nothing depends on whether and in which version they are
// installed.
package flow
