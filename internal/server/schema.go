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
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/buildview"
	"github.com/waybill-dev/waybill/internal/service/flowview"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// schemaNames returns the name that the API's description has for the schema of each type.
// Generated clients call their types so: a name stays when its type is renamed or moves to another
// package.
func schemaNames() map[reflect.Type]string {
	return map[reflect.Type]string{
		reflect.TypeFor[action.Answer]():                "ActionAnswer",
		reflect.TypeFor[action.Event]():                 "ActionEvent",
		reflect.TypeFor[action.Policy]():                "ActionPolicy",
		reflect.TypeFor[action.StepRef]():               "ActionStepRef",
		reflect.TypeFor[action.Subscriber]():            "ActionSubscriber",
		reflect.TypeFor[action.Thread]():                "ActionThread",
		reflect.TypeFor[service.ActionView]():           "ActionView",
		reflect.TypeFor[operation.AddActionBody]():      "AddInputBody",
		reflect.TypeFor[service.AddedAction]():          "AddedAction",
		reflect.TypeFor[operation.ApprovalBody]():       "ApprovalInputBody",
		reflect.TypeFor[service.ApprovalView]():         "ApprovalView",
		reflect.TypeFor[buildview.Artifact]():           "BuildArtifact",
		reflect.TypeFor[build.ArtifactRule]():           "BuildArtifactRule",
		reflect.TypeFor[build.CacheRule]():              "BuildCacheRule",
		reflect.TypeFor[build.ImageBuild]():             "BuildImageBuild",
		reflect.TypeFor[buildview.List]():               "BuildList",
		reflect.TypeFor[buildview.LogEntry]():           "BuildLogEntry",
		reflect.TypeFor[buildview.Matches]():            "BuildMatches",
		reflect.TypeFor[build.Mount]():                  "BuildMount",
		reflect.TypeFor[buildview.Param]():              "BuildParam",
		reflect.TypeFor[build.Plan]():                   "BuildPlan",
		reflect.TypeFor[build.PlanStage]():              "BuildPlanStage",
		reflect.TypeFor[build.PlanStep]():               "BuildPlanStep",
		reflect.TypeFor[build.Replacement]():            "BuildReplacement",
		reflect.TypeFor[build.Resources]():              "BuildResources",
		reflect.TypeFor[build.Retry]():                  "BuildRetry",
		reflect.TypeFor[build.SecretArg]():              "BuildSecretArg",
		reflect.TypeFor[build.SecretKeys]():             "BuildSecretKeys",
		reflect.TypeFor[build.Service]():                "BuildService",
		reflect.TypeFor[build.Spec]():                   "BuildSpec",
		reflect.TypeFor[buildview.StepView]():           "BuildStepView",
		reflect.TypeFor[buildview.Summary]():            "BuildSummary",
		reflect.TypeFor[buildview.Test]():               "BuildTest",
		reflect.TypeFor[build.TestRules]():              "BuildTestRules",
		reflect.TypeFor[buildview.TestSummary]():        "BuildTests",
		reflect.TypeFor[operation.BuildView]():          "BuildView",
		reflect.TypeFor[builds.Event]():                 "BuildsEvent",
		reflect.TypeFor[operation.CatchUpBody]():        "CatchUpInputBody",
		reflect.TypeFor[service.Child]():                "Child",
		reflect.TypeFor[operation.CommandAnswer]():      "CommandAnswer",
		reflect.TypeFor[operation.CommandBody]():        "CommandInputBody",
		reflect.TypeFor[service.CommandPreview]():       "CommandPreview",
		reflect.TypeFor[service.Condition]():            "Condition",
		reflect.TypeFor[operation.DeployBody]():         "DeployInputBody",
		reflect.TypeFor[service.DeployPreview]():        "DeployPreview",
		reflect.TypeFor[service.DeploymentView]():       "DeploymentView",
		reflect.TypeFor[service.DifferencePoint]():      "DifferencePoint",
		reflect.TypeFor[service.DifferenceView]():       "DifferenceView",
		reflect.TypeFor[service.Drift]():                "Drift",
		reflect.TypeFor[service.EditView]():             "EditView",
		reflect.TypeFor[service.Failure]():              "Failure",
		reflect.TypeFor[fault.Position]():               "FaultPosition",
		reflect.TypeFor[fault.Problem]():                "FaultProblem",
		reflect.TypeFor[flowview.Flow]():                "Flow",
		reflect.TypeFor[flowview.Claim]():               "FlowClaim",
		reflect.TypeFor[flowview.Combined]():            "FlowCombined",
		reflect.TypeFor[flowview.Condition]():           "FlowCondition",
		reflect.TypeFor[flowview.Part]():                "FlowPart",
		reflect.TypeFor[flowview.ServiceInstance]():     "FlowServiceInstance",
		reflect.TypeFor[service.FlowView]():             "FlowView",
		reflect.TypeFor[service.Found]():                "Found",
		reflect.TypeFor[operation.FreezeBody]():         "FreezeInputBody",
		reflect.TypeFor[service.FreezeView]():           "FreezeView",
		reflect.TypeFor[service.GroupRun]():             "GroupRun",
		reflect.TypeFor[service.HandlerView]():          "HandlerView",
		reflect.TypeFor[service.HostRun]():              "HostRun",
		reflect.TypeFor[service.HostView]():             "HostView",
		reflect.TypeFor[service.InstanceView]():         "InstanceView",
		reflect.TypeFor[operation.JudgmentBody]():       "JudgmentInputBody",
		reflect.TypeFor[queue.ActionState]():            "LedgerActionState",
		reflect.TypeFor[pipeline.RevisionArtifact]():    "LedgerArtifact",
		reflect.TypeFor[journal.Deployment]():           "LedgerDeployment",
		reflect.TypeFor[queue.Limiter]():                "LedgerLimiter",
		reflect.TypeFor[store.OpenWriter]():             "LedgerOpenWriter",
		reflect.TypeFor[queue.Partitions]():             "LedgerPartitions",
		reflect.TypeFor[journal.Passage]():              "LedgerPassage",
		reflect.TypeFor[queue.Pinned]():                 "LedgerPinned",
		reflect.TypeFor[journal.Registered]():           "LedgerRegistered",
		reflect.TypeFor[queue.Reload]():                 "LedgerReload",
		reflect.TypeFor[queue.Replayed]():               "LedgerReplayed",
		reflect.TypeFor[journal.Resource]():             "LedgerResource",
		reflect.TypeFor[pipeline.RegisteredRevision]():  "LedgerRevision",
		reflect.TypeFor[store.Strain]():                 "LedgerStrain",
		reflect.TypeFor[journal.Version]():              "LedgerVersion",
		reflect.TypeFor[service.LeftService]():          "LeftService",
		reflect.TypeFor[operation.LimitBody]():          "LimitBody",
		reflect.TypeFor[operation.LogReported]():        "LogReported",
		reflect.TypeFor[service.Measures]():             "Measures",
		reflect.TypeFor[service.OpenHere]():             "OpenHere",
		reflect.TypeFor[admission.Approval]():           "PipelineApproval",
		reflect.TypeFor[admission.ApprovalState]():      "PipelineApprovalState",
		reflect.TypeFor[pipeline.Artifact]():            "PipelineArtifact",
		reflect.TypeFor[pipeline.Bake]():                "PipelineBake",
		reflect.TypeFor[pipeline.Batch]():               "PipelineBatch",
		reflect.TypeFor[pipeline.Build]():               "PipelineBuild",
		reflect.TypeFor[pipeline.Check]():               "PipelineCheck",
		reflect.TypeFor[pipeline.Definition]():          "PipelineDefinition",
		reflect.TypeFor[pipeline.DeploymentState]():     "PipelineDeploymentState",
		reflect.TypeFor[pipeline.Effect]():              "PipelineEffect",
		reflect.TypeFor[pipeline.Entry]():               "PipelineEntry",
		reflect.TypeFor[pipeline.ExpectedEnd]():         "PipelineExpectedEnd",
		reflect.TypeFor[admission.Freeze]():             "PipelineFreeze",
		reflect.TypeFor[pipeline.Environment]():         "PipelineEnvironment",
		reflect.TypeFor[pipeline.App]():                 "PipelineEnvironmentApp",
		reflect.TypeFor[pipeline.Merge]():               "PipelineEnvironmentMerge",
		reflect.TypeFor[pipeline.Notification]():        "PipelineEnvironmentNotification",
		reflect.TypeFor[pipeline.PullRequest]():         "PipelineEnvironmentPullRequest",
		reflect.TypeFor[pipeline.Source]():              "PipelineEnvironmentSource",
		reflect.TypeFor[pipeline.Strategy]():            "PipelineEnvironmentStrategy",
		reflect.TypeFor[pipeline.Target]():              "PipelineEnvironmentTarget",
		reflect.TypeFor[pipeline.Gate]():                "PipelineGate",
		reflect.TypeFor[pipeline.GateHandler]():         "PipelineGateHandler",
		reflect.TypeFor[pipeline.GateJob]():             "PipelineGateJob",
		reflect.TypeFor[pipeline.GateRequest]():         "PipelineGateRequest",
		reflect.TypeFor[pipeline.Group]():               "PipelineGroup",
		reflect.TypeFor[pipeline.Host]():                "PipelineHost",
		reflect.TypeFor[pipeline.Keep]():                "PipelineKeep",
		reflect.TypeFor[pipeline.Limit]():               "PipelineLimit",
		reflect.TypeFor[pipeline.PlanStep]():            "PipelinePlanStep",
		reflect.TypeFor[pipeline.Ready]():               "PipelineReady",
		reflect.TypeFor[pipeline.SSH]():                 "PipelineSSH",
		reflect.TypeFor[pipeline.Service]():             "PipelineService",
		reflect.TypeFor[pipeline.Stage]():               "PipelineStage",
		reflect.TypeFor[pipeline.Step]():                "PipelineStep",
		reflect.TypeFor[pipeline.StepKey]():             "PipelineStepKey",
		reflect.TypeFor[pipeline.StepState]():           "PipelineStepState",
		reflect.TypeFor[service.PipelineView]():         "PipelineView",
		reflect.TypeFor[pipeline.Waves]():               "PipelineWaves",
		reflect.TypeFor[admission.Window]():             "PipelineWindow",
		reflect.TypeFor[service.PlanView]():             "PlanView",
		reflect.TypeFor[service.PromotionPlan]():        "PromotionPlan",
		reflect.TypeFor[service.PlannedEnvironment]():   "PromotionPlanEnvironment",
		reflect.TypeFor[service.PlannedFiles]():         "PromotionPlanFiles",
		reflect.TypeFor[service.PlannedStep]():          "PromotionPlanStep",
		reflect.TypeFor[service.PipelineCheck]():        "PromotionCheck",
		reflect.TypeFor[service.Finding]():              "PromotionFinding",
		reflect.TypeFor[operation.Preview]():            "Preview",
		reflect.TypeFor[service.ProjectView]():          "ProjectView",
		reflect.TypeFor[promotions.App]():               "PromotionApp",
		reflect.TypeFor[promotions.ApprovalView]():      "PromotionApproval",
		reflect.TypeFor[promotions.AttemptView]():       "PromotionAttempt",
		reflect.TypeFor[promotions.ConditionView]():     "PromotionCondition",
		reflect.TypeFor[promotions.EnvironmentView]():   "PromotionEnvironment",
		reflect.TypeFor[promotions.GateView]():          "PromotionGate",
		reflect.TypeFor[promotions.HoldView]():          "PromotionHold",
		reflect.TypeFor[promotions.ProposalView]():      "PromotionProposal",
		reflect.TypeFor[promotions.ReasonView]():        "PromotionReason",
		reflect.TypeFor[promotions.RunView]():           "PromotionRun",
		reflect.TypeFor[promotions.TargetState]():       "PromotionTarget",
		reflect.TypeFor[promotions.View]():              "PromotionView",
		reflect.TypeFor[promotions.WindowView]():        "PromotionWindow",
		reflect.TypeFor[service.Reached]():              "Reached",
		reflect.TypeFor[service.RecordedCommand]():      "RecordedCommand",
		reflect.TypeFor[service.ReplacedRevision]():     "ReplacedRevision",
		reflect.TypeFor[service.ReplayOrder]():          "ReplayOrder",
		reflect.TypeFor[operation.RerunBuildBody]():     "RerunBuildBody",
		reflect.TypeFor[build.Final]():                  "ResultsFinal",
		reflect.TypeFor[build.Trailer]():                "ResultsTrailer",
		reflect.TypeFor[build.Update]():                 "ResultsUpdate",
		reflect.TypeFor[service.ReturningHost]():        "ReturningHost",
		reflect.TypeFor[operation.RevisionBody]():       "RevisionInputBody",
		reflect.TypeFor[operation.RollbackBody]():       "RollbackInputBody",
		reflect.TypeFor[service.RollbackPreview]():      "RollbackPreview",
		reflect.TypeFor[operation.RunBuildBody]():       "RunBuildBody",
		reflect.TypeFor[service.Running]():              "Running",
		reflect.TypeFor[service.ScheduleView]():         "ScheduleView",
		reflect.TypeFor[service.ServiceAttributes]():    "ServiceAttributes",
		reflect.TypeFor[service.ServiceInstanceView]():  "ServiceInstanceView",
		reflect.TypeFor[service.ServiceLogView]():       "ServiceLogView",
		reflect.TypeFor[service.ServiceOperation]():     "ServiceOperation",
		reflect.TypeFor[operation.ServiceRestartBody](): "ServiceRestartInputBody",
		reflect.TypeFor[service.ServiceStatusView]():    "ServiceStatusView",
		reflect.TypeFor[service.ServiceView]():          "ServiceView",
		reflect.TypeFor[service.Services]():             "Services",
		reflect.TypeFor[service.SnapshotView]():         "SnapshotView",
		reflect.TypeFor[operation.SnoozeBody]():         "SnoozeInputBody",
		reflect.TypeFor[service.Spread]():               "Spread",
		reflect.TypeFor[service.StageMetrics]():         "StageMetrics",
		reflect.TypeFor[service.StageRun]():             "StageRun",
		reflect.TypeFor[service.StageView]():            "StageView",
		reflect.TypeFor[service.Standing]():             "Standing",
		reflect.TypeFor[operation.StatusReportBody]():   "StatusReportBody",
		reflect.TypeFor[service.StatusView]():           "StatusView",
		reflect.TypeFor[service.StepRun]():              "StepRun",
		reflect.TypeFor[step.State]():                   "StepState",
		reflect.TypeFor[operation.Stored]():             "Stored",
		reflect.TypeFor[service.TargetView]():           "TargetView",
		reflect.TypeFor[buildview.TestFileView]():       "TestFileView",
		reflect.TypeFor[testresult.Counts]():            "TestresultCounts",
		reflect.TypeFor[testresult.Error]():             "TestresultError",
		reflect.TypeFor[testresult.Result]():            "TestresultResult",
		reflect.TypeFor[operation.ThawBody]():           "ThawInputBody",
		reflect.TypeFor[service.TickView]():             "TickView",
		reflect.TypeFor[service.Trouble]():              "Trouble",
		reflect.TypeFor[service.Try]():                  "Try",
		reflect.TypeFor[huma.ErrorDetail]():             "V2ErrorDetail",
		reflect.TypeFor[huma.ErrorModel]():              "V2ErrorModel",
		reflect.TypeFor[promotions.UndoneView]():        "UndoneView",
		reflect.TypeFor[service.WaveRun]():              "WaveRun",
		reflect.TypeFor[service.Week]():                 "Week",
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
