package webhook

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"text/template"
	"time"
)

// functions returns the functions that templates may call, besides what text/template has
// (urlquery, printf, eq, …).
func functions(env []string) template.FuncMap {
	return template.FuncMap{
		"json":    toJSON,
		"shq":     func(v any) string { return "'" + strings.ReplaceAll(fmt.Sprint(v), "'", `'\''`) + "'" },
		"lower":   func(v any) string { return strings.ToLower(fmt.Sprint(v)) },
		"upper":   func(v any) string { return strings.ToUpper(fmt.Sprint(v)) },
		"default": orDefault,
		"date":    date,
		"b64":     func(v any) string { return base64.StdEncoding.EncodeToString([]byte(fmt.Sprint(v))) },
		"env": func(name string) (string, error) {
			if !slices.Contains(env, name) {
				return "", fmt.Errorf("%s is not listed in templateEnv", name)
			}
			value, set := os.LookupEnv(name)
			if !set {
				return "", fmt.Errorf("the environment has no %s", name)
			}
			return value, nil
		},
	}
}

// toJSON writes a value as JSON.
func toJSON(v any) (string, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// orDefault returns v, or the other value when v is empty: nothing, "", 0, false, no items.
func orDefault(other, v any) any {
	value := reflect.ValueOf(v)
	if !value.IsValid() || value.IsZero() {
		return other
	}
	if kind := value.Kind(); (kind == reflect.Map || kind == reflect.Slice) && value.Len() == 0 {
		return other
	}
	return v
}

// date writes a moment, given as RFC 3339, in Go's layout and in UTC.
func date(layout string, moment any) (string, error) {
	at, err := time.Parse(time.RFC3339, fmt.Sprint(moment))
	if err != nil {
		return "", fmt.Errorf("%v is not a time such as 2026-11-21T10:00:00Z", moment)
	}
	return at.UTC().Format(layout), nil
}

// urlHost returns the host of an address in lower case, with the port when it is not the scheme's.
func urlHost(address any) (string, error) {
	u, err := url.Parse(fmt.Sprint(address))
	if err != nil {
		return "", fmt.Errorf("%v is not an address", address)
	}
	return strings.ToLower(u.Host), nil
}
