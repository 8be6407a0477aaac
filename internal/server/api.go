package server

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/semaphore"
	"github.com/waybill-dev/waybill/internal/service"
)

// tokenScheme is the name of the security scheme of Waybill's tokens in the API's description. Hooks have further schemes.
const tokenScheme = "token"

// api performs operations with a Service, over HTTP and within this process.
type api struct {
	service     *service.Service
	calls       operation.Calls
	huma        huma.API             // nil: within this process only
	definitions *semaphore.Semaphore // bounds how many definitions are read at a time
}

func newAPI(s *service.Service) *api {
	return &api{
		service:     s,
		calls:       operation.Calls{},
		definitions: semaphore.New(mostDefinitions, definitionPatience, "too many definitions are being read"),
	}
}

// registerAPI adds the API to a mux. Its description is at /api/v1/openapi.json and .yaml (OpenAPI 3.1).
func registerAPI(mux *http.ServeMux, s *service.Service, version string) huma.API {
	config := huma.DefaultConfig("Waybill", version)
	config.CreateHooks = nil // no $schema in answers: they equal the output of the commands with -o json
	config.Formats = map[string]huma.Format{"application/json": safeJSON(), "json": safeJSON()}
	config.OpenAPIPath = operation.Prefix + "/openapi"
	config.DocsPath, config.SchemasPath = "", ""
	config.Transformers = append(config.Transformers, transformErrors)
	config.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", namer())
	config.Components.SecuritySchemes = hookSchemes()
	config.Components.SecuritySchemes[tokenScheme] = &huma.SecurityScheme{Type: "http", Scheme: "bearer",
		Description: "the home's token; on loopback only changes need it"}
	a := newAPI(s)
	a.huma = humago.New(mux, config)
	a.huma.UseMiddleware(a.admit)
	a.register()
	return a.huma
}

// register adds every operation.
func (a *api) register() {
	a.registerPipelines()
	a.registerRevisions()
	a.registerDeployments()
	a.registerApprovals()
	a.registerServices()
	a.registerTargets()
	a.registerPromotions()
	a.registerLog()
	a.registerActions()
	a.registerEvents()
	a.registerActionCommands()
	a.registerLimits()
	a.registerStatus()
	a.registerSchedules()
	a.registerServiceInstances()
	a.registerFlows()
	a.registerBuilds()
}
