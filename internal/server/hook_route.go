package server

import (
	"fmt"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/listener"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/signature"
)

// The names of the security schemes of hooks in the API's description.
const (
	requestScheme = "signature"
	bodyScheme    = "bodySignature"
	clusterScheme = "kubernetesToken"
	hostScheme    = "hostSignature"
	gitlabScheme  = "gitlabToken"
	azureScheme   = "basic"
	keyScheme     = "triggerKey"
)

// hookSchemes returns the ways in which other systems prove themselves.
func hookSchemes() map[string]*huma.SecurityScheme {
	inHeader := func(name, description string) *huma.SecurityScheme {
		return &huma.SecurityScheme{Type: "apiKey", In: "header", Name: name, Description: description}
	}
	return map[string]*huma.SecurityScheme{
		requestScheme: inHeader(signature.Header, "t=UNIXTIME,n=NONCE,k=KEY,v1=HEX by a key of the environment's Secret, over method, path, "+
			"time, nonce and body; at most 1024 bytes and 5 minutes old, of use once"),
		bodyScheme: inHeader(signature.BodyHeader, "sha224, sha256, sha384 or sha512, = and the HMAC of the body in hexadecimal digits, "+
			"as the original controller has it"),
		clusterScheme: {Type: "http", Scheme: "bearer",
			Description: "a token of the management cluster, whose user may approve in the environment"},
		hostScheme: inHeader("X-Hub-Signature-256", "HMAC-SHA-256 of the body in hexadecimal digits, as GitHub sends it; "+
			"Gitea's is in X-Gitea-Signature, "+
			"Forgejo's in X-Forgejo-Signature, and Bitbucket's in X-Hub-Signature"),
		gitlabScheme: inHeader("X-Gitlab-Token", "the secret of the hook, as GitLab sends it"),
		keyScheme:    {Type: "apiKey", In: "query", Name: tokenQuery, Description: "a key of the trigger, or a token; also as Authorization: Bearer"},
		azureScheme:  {Type: "http", Scheme: "basic", Description: "the user and the password of the hook, as Azure DevOps sends them"},
	}
}

// hookRoutes are the places at which the requests of other systems are registered.
type hookRoutes struct {
	mux       *http.ServeMux
	described huma.API
}

// handle registers a hook, which huma describes and does not answer: a signature covers the bytes of a request.
func (to hookRoutes) handle(o *huma.Operation, serve http.HandlerFunc) {
	o.Method, o.Parameters = http.MethodPost, pathParameters(o.Path)
	content := map[string]*huma.MediaType{"application/problem+json": {
		Schema: to.described.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[huma.ErrorModel](), true, "")}}
	for status, response := range o.Responses {
		if status >= "400" {
			response.Content = content
		}
	}
	o.Responses["default"] = &huma.Response{Description: "Error", Content: content}
	to.described.OpenAPI().AddOperation(o)
	to.mux.HandleFunc(o.Path, serve) // all methods: others are answered 405
}

func approvalHook() *huma.Operation {
	text := func(description string) *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, Description: description}
	}
	body := &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{
		"decision":    {Type: huma.TypeString, Enum: []any{"approve", "reject"}, Default: "approve"},
		"reason":      text("for people"),
		"pipeline":    text("NAMESPACE:PIPELINE as in the address; a signature of the body alone needs this and the next two"),
		"environment": text("as in the address"),
		"revision":    text("as in the address"),
	}}
	answers := hookAnswers(maxSigned)
	answers["201"] = &huma.Response{Description: "Recorded, or recorded already, and the pull request in Location is open",
		Headers: map[string]*huma.Param{
			"Location": {Description: "the page of the pull request", Schema: &huma.Schema{Type: huma.TypeString, Format: "uri"}}}}
	answers["204"] = &huma.Response{Description: "Recorded; a repetition leaves the first record"}
	answers["403"] = &huma.Response{Description: "The sender may not approve here"}
	answers["409"] = &huma.Response{Description: "The signature was used before"}
	answers["422"] = &huma.Response{Description: "That revision does not wait for approval there"}
	return &huma.Operation{OperationID: "approve-by-hook", Path: approvalPath + "{namespace}/{pipeline}/{environment}/{revision}",
		Summary:     "Approve or reject a revision in an environment of a pipeline of Kubernetes, also with a signature",
		Security:    environmentProofs(),
		RequestBody: hookBody(maxSigned, "", body), Responses: answers}
}

func promotionHook() *huma.Operation {
	answers := hookAnswers(maxSigned)
	answers["204"] = &huma.Response{Description: "The pipeline is looked at"}
	answers["403"] = &huma.Response{Description: "The sender may not approve here"}
	answers["409"] = &huma.Response{Description: "The signature was used before"}
	return &huma.Operation{OperationID: "wake-by-hook", Path: promotionPath + "{namespace}/{pipeline}/{environment}",
		Summary:     "Have a pipeline of Kubernetes looked at, as the original controller's notifications do; decides nothing",
		Security:    environmentProofs(),
		RequestBody: hookBody(maxSigned, "a notification, of which nothing is used", &huma.Schema{}), Responses: answers}
}

func hostHook() *huma.Operation {
	answers := hookAnswers(maxHostHook)
	answers["204"] = &huma.Response{Description: "The pull requests that it names are read, or it tests the connection"}
	body := hookBody(maxHostHook, "the webhook as the Git host sends it, of which repository and number are used",
		&huma.Schema{Type: huma.TypeObject})
	body.Required = true
	return &huma.Operation{OperationID: "call-by-git-host", Path: hostHookPath + "{name}",
		Summary:     "Have the open pull requests read that a Git host calls about, by its webhook in promoter.hooks of server.yaml",
		Security:    []map[string][]string{{hostScheme: {}}, {gitlabScheme: {}}, {azureScheme: {}}},
		RequestBody: body, Responses: answers}
}

// environmentProofs lists the proofs of a sender who may approve in an environment.
func environmentProofs() []map[string][]string {
	return []map[string][]string{{tokenScheme: {string(service.ScopeApprove)}}, {clusterScheme: {}}, {requestScheme: {}}, {bodyScheme: {}}}
}

// hookBody describes a body of up to a number of bytes.
func hookBody(most int, description string, schema *huma.Schema) *huma.RequestBody {
	if description != "" {
		description += "; "
	}
	return &huma.RequestBody{Description: fmt.Sprintf("%sat most %d bytes", description, most),
		Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
}

// hookAnswers returns the answers of all hooks.
func hookAnswers(most int) map[string]*huma.Response {
	header := func(name, description string) map[string]*huma.Param {
		return map[string]*huma.Param{name: {Description: description, Schema: &huma.Schema{Type: huma.TypeString}}}
	}
	return map[string]*huma.Response{
		"401": {Description: "No proof, or one that is not valid"},
		"404": {Description: "Not found"},
		"405": {Description: "Another method than POST", Headers: header("Allow", "POST")},
		"413": {Description: fmt.Sprintf("The body has more than %d bytes", most)},
		"429": {Description: fmt.Sprintf("The source has sent more than %d requests a second, after a burst of %d", listener.SourceRate, listener.SourceBurst),
			Headers: header("Retry-After", "seconds")},
	}
}
