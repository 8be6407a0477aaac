package osb

import "github.com/waybill-dev/waybill/internal/document"

// The keys of a catalog's file. All but handlers, flow and credentials are the standard's, and mean the same.
var (
	schemaKeys = []document.Key{
		{Name: "parameters", Shape: document.Object, Required: true, Help: "A JSON Schema with $schema and without external references, at most 64 kB."},
	}

	instanceSchemaKeys = []document.Key{
		{Name: "create", Shape: document.Object, Keys: schemaKeys, Help: "Parameters of provisions."},
		{Name: "update", Shape: document.Object, Keys: schemaKeys, Default: "as create", Help: "Parameters of updates."},
	}

	bindingSchemaKeys = []document.Key{
		{Name: "create", Shape: document.Object, Keys: schemaKeys, Help: "Parameters of binds."},
	}

	schemasKeys = []document.Key{
		{Name: "service_instance", Shape: document.Object, Keys: instanceSchemaKeys, Help: "Schemas of service instances."},
		{Name: "service_binding", Shape: document.Object, Keys: bindingSchemaKeys, Help: "Schemas of bindings."},
	}

	maintenanceKeys = []document.Key{
		{Name: "version", Shape: document.Text, Required: true, Help: "A semantic version, such as 1.4.0."},
		{Name: "description", Shape: document.Text, Help: "What the version changes."},
	}

	handlersKeys = []document.Key{
		{Name: "provision", Shape: document.Text, Required: true, Help: "Handler that makes a service instance."},
		{Name: "update", Shape: document.Text, Default: "service instances cannot be changed", Help: "Handler that changes one."},
		{Name: "deprovision", Shape: document.Text, Required: true, Help: "Handler that removes one."},
	}

	flowKeys = []document.Key{
		{Name: "source", Shape: document.Object, Required: true, Help: "As in the spec of an EventFlow, like the next four."},
		{Name: "sink", Shape: document.Object, Default: "the Broker default of the namespace", Help: "Where events go."},
		{Name: "delivery", Shape: document.Object | document.Text, Default: "Knative's", Help: "How events are delivered."},
		{Name: "meshPolicy", Shape: document.Text, Default: "None", Help: "None or PermissiveMetrics."},
		{Name: "suspend", Shape: document.Flag | document.Text, Default: "false", Help: "Whether the controller leaves the flow alone."},
		{Name: "namespace", Shape: document.Text, Default: "that of the address or of context.namespace", Help: "Namespace of all flows of the plan."},
		{Name: "waitForReady", Shape: document.Flag, Default: "false", Help: "Whether an operation succeeds only once the flow is ready."},
	}

	planKeys = []document.Key{
		{Name: "id", Shape: document.Text, Required: true, Help: "Unique among all plans; platforms keep it."},
		{Name: "name", Shape: document.Text, Required: true, Help: "Unique in the service."},
		{Name: "description", Shape: document.Text, Required: true, Help: "A short text for people."},
		{Name: "metadata", Shape: document.Object, Help: "Passed on to platforms."},
		{Name: "free", Shape: document.Flag, Default: "true", Help: "Whether service instances cost nothing."},
		{Name: "bindable", Shape: document.Flag, Default: "that of the service", Help: "Whether there are bindings; they need credentials."},
		{Name: "plan_updateable", Shape: document.Flag, Default: "that of the service", Help: "Whether service instances may get another plan."},
		{Name: "schemas", Shape: document.Object, Keys: schemasKeys, Default: "any parameters", Help: "JSON Schemas of parameters."},
		{Name: "maximum_polling_duration", Shape: document.Number, Default: "3600", Help: "Seconds after which an operation has failed."},
		{Name: "maintenance_info", Shape: document.Object, Keys: maintenanceKeys, Help: "Version of what service instances run on."},
		{Name: "handlers", Shape: document.Object, Keys: handlersKeys, Help: "Handlers of server.yaml that do the work; either these or flow."},
		{Name: "flow", Shape: document.Object, Keys: flowKeys, Help: "The EventFlow that a service instance is."},
		{Name: "credentials", Shape: document.Object, Help: "Credentials of bindings: constants, and ${parameters.NAME} as whole texts."},
	}

	serviceKeys = []document.Key{
		{Name: "id", Shape: document.Text, Required: true, Help: "Unique among all services; platforms keep it."},
		{Name: "name", Shape: document.Text, Required: true, Help: "Unique; what users ask for."},
		{Name: "description", Shape: document.Text, Required: true, Help: "A short text for people."},
		{Name: "tags", Shape: document.Texts, Help: "Words for grouping services."},
		{Name: "requires", Shape: document.Texts, Help: "Must be empty: syslog drains, routes and volumes are not offered."},
		{Name: "bindable", Shape: document.Flag, Default: "false", Help: "Whether its plans have bindings."},
		{Name: "metadata", Shape: document.Object, Help: "Passed on to platforms."},
		{Name: "plan_updateable", Shape: document.Flag, Default: "false", Help: "Whether service instances may get another plan."},
		{Name: "instances_retrievable", Shape: document.Flag, Default: "true", Help: "Always true."},
		{Name: "bindings_retrievable", Shape: document.Flag, Default: "true", Help: "Always true."},
		{Name: "allow_context_updates", Shape: document.Flag, Default: "true", Help: "Always true."},
		{Name: "plans", Shape: document.Objects, Required: true, Keys: planKeys, Help: "Forms of the service."},
	}

	catalogKeys = []document.Key{
		{Name: "services", Shape: document.Objects, Required: true, Keys: serviceKeys, Help: "Services that the broker offers."},
	}
)
