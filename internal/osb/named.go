package osb

import "github.com/waybill-dev/waybill/internal/action"

// Named is the text with which a client polls: an id, a verb, or neither, which is the same as no text.
type Named struct {
	ID   action.ID
	Verb Verb
}

// ParseNamed reads the query parameter operation.
func ParseNamed(text string) Named {
	switch verb := Verb(text); verb {
	case VerbProvision, VerbUpdate, VerbDeprovision:
		return Named{Verb: verb}
	}
	id, err := action.ParseID(text)
	if err != nil {
		return Named{} // some platforms lose the text, or send one of another broker
	}
	return Named{ID: id}
}
