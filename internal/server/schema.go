package server

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// schemaNames returns the name that the API's description has for the schema of each type.
// Generated clients call their types so: a name stays when its type is renamed or moves to another
// package.
func schemaNames() map[reflect.Type]string {
	return map[reflect.Type]string{
		reflect.TypeFor[action.Answer]():               "ActionAnswer",
		reflect.TypeFor[action.Event]():                "ActionEvent",
		reflect.TypeFor[action.Policy]():               "ActionPolicy",
		reflect.TypeFor[action.StepRef]():              "ActionStepRef",
		reflect.TypeFor[action.Subscriber]():           "ActionSubscriber",
		reflect.TypeFor[action.Thread]():               "ActionThread",
		reflect.TypeFor[ActionView]():                  "ActionView",
		reflect.TypeFor[AddActionBody]():               "AddInputBody",
		reflect.TypeFor[AddedAction]():                 "AddedAction",
		reflect.TypeFor[ApprovalBody]():                "ApprovalInputBody",
		reflect.TypeFor[ApprovalView]():                "ApprovalView",
		reflect.TypeFor[BuildArtifact]():               "BuildArtifact",
		reflect.TypeFor[build.ArtifactRule]():          "BuildArtifactRule",
		reflect.TypeFor[build.CacheRule]():             "BuildCacheRule",
		reflect.TypeFor[build.ImageBuild]():            "BuildImageBuild",
		reflect.TypeFor[BuildList]():                   "BuildList",
		reflect.TypeFor[BuildLogEntry]():               "BuildLogEntry",
		reflect.TypeFor[BuildMatches]():                "BuildMatches",
		reflect.TypeFor[build.Mount]():                 "BuildMount",
		reflect.TypeFor[BuildParam]():                  "BuildParam",
		reflect.TypeFor[build.Plan]():                  "BuildPlan",
		reflect.TypeFor[build.PlanStage]():             "BuildPlanStage",
		reflect.TypeFor[build.PlanStep]():              "BuildPlanStep",
		reflect.TypeFor[build.Replacement]():           "BuildReplacement",
		reflect.TypeFor[build.Resources]():             "BuildResources",
		reflect.TypeFor[build.Retry]():                 "BuildRetry",
		reflect.TypeFor[build.SecretArg]():             "BuildSecretArg",
		reflect.TypeFor[build.SecretKeys]():            "BuildSecretKeys",
		reflect.TypeFor[build.Service]():               "BuildService",
		reflect.TypeFor[build.Spec]():                  "BuildSpec",
		reflect.TypeFor[BuildStepView]():               "BuildStepView",
		reflect.TypeFor[BuildSummary]():                "BuildSummary",
		reflect.TypeFor[BuildTest]():                   "BuildTest",
		reflect.TypeFor[build.TestRules]():             "BuildTestRules",
		reflect.TypeFor[BuildTests]():                  "BuildTests",
		reflect.TypeFor[BuildView]():                   "BuildView",
		reflect.TypeFor[builds.Event]():                "BuildsEvent",
		reflect.TypeFor[CatchUpBody]():                 "CatchUpInputBody",
		reflect.TypeFor[Child]():                       "Child",
		reflect.TypeFor[CommandAnswer]():               "CommandAnswer",
		reflect.TypeFor[CommandBody]():                 "CommandInputBody",
		reflect.TypeFor[CommandPreview]():              "CommandPreview",
		reflect.TypeFor[Condition]():                   "Condition",
		reflect.TypeFor[DeployBody]():                  "DeployInputBody",
		reflect.TypeFor[DeployPreview]():               "DeployPreview",
		reflect.TypeFor[DeploymentView]():              "DeploymentView",
		reflect.TypeFor[DifferencePoint]():             "DifferencePoint",
		reflect.TypeFor[DifferenceView]():              "DifferenceView",
		reflect.TypeFor[Drift]():                       "Drift",
		reflect.TypeFor[EditView]():                    "EditView",
		reflect.TypeFor[Failure]():                     "Failure",
		reflect.TypeFor[fault.Position]():              "FaultPosition",
		reflect.TypeFor[fault.Problem]():               "FaultProblem",
		reflect.TypeFor[Found]():                       "Found",
		reflect.TypeFor[FreezeBody]():                  "FreezeInputBody",
		reflect.TypeFor[FreezeView]():                  "FreezeView",
		reflect.TypeFor[GroupRun]():                    "GroupRun",
		reflect.TypeFor[HandlerView]():                 "HandlerView",
		reflect.TypeFor[HostRun]():                     "HostRun",
		reflect.TypeFor[HostView]():                    "HostView",
		reflect.TypeFor[InstanceView]():                "InstanceView",
		reflect.TypeFor[JudgmentBody]():                "JudgmentInputBody",
		reflect.TypeFor[queue.ActionState]():           "LedgerActionState",
		reflect.TypeFor[pipeline.RevisionArtifact]():   "LedgerArtifact",
		reflect.TypeFor[journal.Deployment]():          "LedgerDeployment",
		reflect.TypeFor[queue.Limiter]():               "LedgerLimiter",
		reflect.TypeFor[store.OpenWriter]():            "LedgerOpenWriter",
		reflect.TypeFor[queue.Partitions]():            "LedgerPartitions",
		reflect.TypeFor[journal.Passage]():             "LedgerPassage",
		reflect.TypeFor[queue.Pinned]():                "LedgerPinned",
		reflect.TypeFor[journal.Registered]():          "LedgerRegistered",
		reflect.TypeFor[queue.Reload]():                "LedgerReload",
		reflect.TypeFor[queue.Replayed]():              "LedgerReplayed",
		reflect.TypeFor[journal.Resource]():            "LedgerResource",
		reflect.TypeFor[pipeline.RegisteredRevision](): "LedgerRevision",
		reflect.TypeFor[store.Strain]():                "LedgerStrain",
		reflect.TypeFor[journal.Version]():             "LedgerVersion",
		reflect.TypeFor[LeftService]():                 "LeftService",
		reflect.TypeFor[LimitBody]():                   "LimitBody",
		reflect.TypeFor[LogReported]():                 "LogReported",
		reflect.TypeFor[Measures]():                    "Measures",
		reflect.TypeFor[OpenHere]():                    "OpenHere",
		reflect.TypeFor[admission.Approval]():          "PipelineApproval",
		reflect.TypeFor[admission.ApprovalState]():     "PipelineApprovalState",
		reflect.TypeFor[pipeline.Artifact]():           "PipelineArtifact",
		reflect.TypeFor[pipeline.Bake]():               "PipelineBake",
		reflect.TypeFor[pipeline.Batch]():              "PipelineBatch",
		reflect.TypeFor[pipeline.Build]():              "PipelineBuild",
		reflect.TypeFor[pipeline.Check]():              "PipelineCheck",
		reflect.TypeFor[pipeline.Definition]():         "PipelineDefinition",
		reflect.TypeFor[pipeline.DeploymentState]():    "PipelineDeploymentState",
		reflect.TypeFor[pipeline.Effect]():             "PipelineEffect",
		reflect.TypeFor[pipeline.Entry]():              "PipelineEntry",
		reflect.TypeFor[pipeline.ExpectedEnd]():        "PipelineExpectedEnd",
		reflect.TypeFor[admission.Freeze]():            "PipelineFreeze",
		reflect.TypeFor[pipeline.Gate]():               "PipelineGate",
		reflect.TypeFor[pipeline.GateHandler]():        "PipelineGateHandler",
		reflect.TypeFor[pipeline.GateJob]():            "PipelineGateJob",
		reflect.TypeFor[pipeline.GateRequest]():        "PipelineGateRequest",
		reflect.TypeFor[pipeline.Group]():              "PipelineGroup",
		reflect.TypeFor[pipeline.Host]():               "PipelineHost",
		reflect.TypeFor[pipeline.Keep]():               "PipelineKeep",
		reflect.TypeFor[pipeline.Limit]():              "PipelineLimit",
		reflect.TypeFor[pipeline.PlanStep]():           "PipelinePlanStep",
		reflect.TypeFor[pipeline.Ready]():              "PipelineReady",
		reflect.TypeFor[pipeline.SSH]():                "PipelineSSH",
		reflect.TypeFor[pipeline.Service]():            "PipelineService",
		reflect.TypeFor[pipeline.Stage]():              "PipelineStage",
		reflect.TypeFor[pipeline.Step]():               "PipelineStep",
		reflect.TypeFor[pipeline.StepKey]():            "PipelineStepKey",
		reflect.TypeFor[pipeline.StepState]():          "PipelineStepState",
		reflect.TypeFor[PipelineView]():                "PipelineView",
		reflect.TypeFor[pipeline.Waves]():              "PipelineWaves",
		reflect.TypeFor[admission.Window]():            "PipelineWindow",
		reflect.TypeFor[PlanView]():                    "PlanView",
		reflect.TypeFor[Preview]():                     "Preview",
		reflect.TypeFor[ProjectView]():                 "ProjectView",
		reflect.TypeFor[Reached]():                     "Reached",
		reflect.TypeFor[RecordedCommand]():             "RecordedCommand",
		reflect.TypeFor[ReplacedRevision]():            "ReplacedRevision",
		reflect.TypeFor[ReplayOrder]():                 "ReplayOrder",
		reflect.TypeFor[RerunBuildBody]():              "RerunBuildBody",
		reflect.TypeFor[build.Final]():                 "ResultsFinal",
		reflect.TypeFor[build.Trailer]():               "ResultsTrailer",
		reflect.TypeFor[build.Update]():                "ResultsUpdate",
		reflect.TypeFor[ReturningHost]():               "ReturningHost",
		reflect.TypeFor[RevisionBody]():                "RevisionInputBody",
		reflect.TypeFor[RollbackBody]():                "RollbackInputBody",
		reflect.TypeFor[RollbackPreview]():             "RollbackPreview",
		reflect.TypeFor[RunBuildBody]():                "RunBuildBody",
		reflect.TypeFor[Running]():                     "Running",
		reflect.TypeFor[ScheduleView]():                "ScheduleView",
		reflect.TypeFor[ServiceLogView]():              "ServiceLogView",
		reflect.TypeFor[ServiceRestartBody]():          "ServiceRestartInputBody",
		reflect.TypeFor[ServiceStatusView]():           "ServiceStatusView",
		reflect.TypeFor[ServiceView]():                 "ServiceView",
		reflect.TypeFor[Services]():                    "Services",
		reflect.TypeFor[SnapshotView]():                "SnapshotView",
		reflect.TypeFor[SnoozeBody]():                  "SnoozeInputBody",
		reflect.TypeFor[Spread]():                      "Spread",
		reflect.TypeFor[StageMetrics]():                "StageMetrics",
		reflect.TypeFor[StageRun]():                    "StageRun",
		reflect.TypeFor[StageView]():                   "StageView",
		reflect.TypeFor[Standing]():                    "Standing",
		reflect.TypeFor[StatusReportBody]():            "StatusReportBody",
		reflect.TypeFor[StatusView]():                  "StatusView",
		reflect.TypeFor[StepRun]():                     "StepRun",
		reflect.TypeFor[step.State]():                  "StepState",
		reflect.TypeFor[Stored]():                      "Stored",
		reflect.TypeFor[TargetView]():                  "TargetView",
		reflect.TypeFor[TestFileView]():                "TestFileView",
		reflect.TypeFor[testresult.Counts]():           "TestresultCounts",
		reflect.TypeFor[testresult.Error]():            "TestresultError",
		reflect.TypeFor[testresult.Result]():           "TestresultResult",
		reflect.TypeFor[ThawBody]():                    "ThawInputBody",
		reflect.TypeFor[TickView]():                    "TickView",
		reflect.TypeFor[Trouble]():                     "Trouble",
		reflect.TypeFor[Try]():                         "Try",
		reflect.TypeFor[huma.ErrorDetail]():            "V2ErrorDetail",
		reflect.TypeFor[huma.ErrorModel]():             "V2ErrorModel",
		reflect.TypeFor[WaveRun]():                     "WaveRun",
		reflect.TypeFor[Week]():                        "Week",
	}
}

// namer returns the names of schemas for a registry of huma's. A type without a name gets one that
// a test finds.
func namer() func(t reflect.Type, hint string) string {
	names := schemaNames()
	return func(t reflect.Type, _ string) string {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if name, ok := names[t]; ok {
			return name
		}
		return unnamed + t.String()
	}
}

// unnamed begins the name of a schema whose type schemaNames does not have.
const unnamed = "unnamed "
