package web

import (
	"bytes"
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/server/ogc"
)

// renderContent returns the part of a page that changes.
func (p *Pages) renderContent(v view) (template.HTML, error) {
	var body bytes.Buffer
	if err := p.templates.ExecuteTemplate(&body, v.Template, v); err != nil {
		return "", fmt.Errorf("render %s: %w", v.Template, err)
	}
	return template.HTML(body.String()), nil // the template has escaped the values
}

// templateFunctions returns the functions that templates call.
func templateFunctions() template.FuncMap {
	return template.FuncMap{
		"args": args, "path": url.PathEscape, // for nested templates and for addresses
		"clock": clock, "when": when, "moment": moment, "attemptOf": attemptOf, "iso": iso, "took": tookText, "duration": server.Took, "size": server.Size, "rate": action.PerSecond, "plural": plural, "laneWord": server.LaneWord,
		"join": func(list []string) string { return strings.Join(list, ", ") }, "pretty": prettyJSON, "compact": compactJSON, "short": short, "digest": shortDigest, "below": belowPipeline, "lower": lowerWords,
		"tone": toneClass, "insideTone": insideTone, "canPause": canPause, "canReset": canReset, "otherTroubles": otherTroubles, "track": trackOf, "words": statusWords, "detail": detail, "outputOf": outputOf, "stepWord": stepWord, "stepName": server.StepName,
		"serviceTone": serviceTone, "conditionTone": conditionTone, "shownSource": shownSource, "outcomeOf": outcomeOf, "date": date,
		"visible": visible, "buildTone": buildTone, "buildWord": buildWord, "nameOfBuild": nameOfBuild, "countLines": countLines,
		"length": func(d action.Duration) string { return server.Took(time.Duration(d)) }, "waiting": waiting, "liveCounts": liveCounts, "phases": queue.Phases, "linkOf": linkOf, "href": func(l ogc.Link) string { return l.Href },
	}
}

// args returns pairs of names and values as a map, to pass several values to a nested template.
func args(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("args wants pairs, got %d values", len(pairs))
	}
	named := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		named[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return named, nil
}
