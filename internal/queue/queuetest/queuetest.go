// Package queuetest is the suite of every driver of a queue, run against each real database. The queue works alone
// here: no journal records the ends of its actions.
package queuetest

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// Run checks a driver. Each call of open returns a fresh database.
func Run(t *testing.T, open func(t *testing.T) storetest.Database) {
	t.Helper()
	storetest.Run(t, open, newSetup, properties())
}

// properties is the suite: a name that states the property, and its proof.
func properties() map[string]func(*testing.T, setup) {
	return map[string]func(*testing.T, setup){
		"QueueFollowsTheModel": queueFollowsTheModel,
		// hosts
		"FirstHomeKeepsAHost": firstHomeKeepsAHost,
		// actions
		"ClaimIsWhatNextSays":           claimIsWhatNextSays,
		"ClaimsAreExclusive":            claimsAreExclusive,
		"LowerPriorityGoesFirst":        lowerPriorityGoesFirst,
		"LanesAreListedPageByPage":      lanesAreListedPageByPage,
		"BlockedLanesAreLeftOut":        blockedLanesAreLeftOut,
		"BlockedLanesHideNoOther":       blockedLanesHideNoOther,
		"BlockedLanesAreNotClaimedOf":   blockedLanesAreNotClaimedOf,
		"ReadyLanesAreNamed":            readyLanesAreNamed,
		"ClaimsAreBoundedInBytes":       claimsAreBoundedInBytes,
		"LateCompletionsAreDropped":     lateCompletionsAreDropped,
		"SuccessNeedsNoLook":            successNeedsNoLook,
		"BadOutcomeFailsItsActionAlone": badOutcomeFailsItsActionAlone,
		"DeadClaimsAreRescued":          deadClaimsAreRescued,
		"OverdueAttemptsAreRescued":     overdueAttemptsAreRescued,
		"OverdueClaimsSpendNothing":     overdueClaimsSpendNothing,
		"EqualKeysMakeOneAction":        equalKeysMakeOneAction,
		"EqualKeysMayBeRefused":         equalKeysMayBeRefused,
		"EqualKeysMayReplace":           equalKeysMayReplace,
		"ReplacersLeaveOne":             replacersLeaveOne,
		"OvertakingIsBounded":           overtakingIsBounded,
		"PriorityStepsAreTheHandlers":   priorityStepsAreTheHandlers,
		"SnoozedActionsWait":            snoozedActionsWait,
		"HastenedActionsWaitNoLonger":   hastenedActionsWaitNoLonger,
		"ReplaysAreMadeOnce":            replaysAreMadeOnce,
		"DueActionsBecomeReady":         dueActionsBecomeReady,
		"DeadlinesEndActions":           deadlinesEndActions,
		"DefaultDeadlinesAreKept":       defaultDeadlinesAreKept,
		"CancelEndsOrAsks":              cancelEndsOrAsks,
		"IllegalTransitionsAreRefused":  illegalTransitionsAreRefused,
		"ActionsAreSelected":            actionsAreSelected,
		"RepeatedValuesCountOnce":       repeatedValuesCountOnce,
		"DeepDocumentsAreTexts":         deepDocumentsAreTexts,
		// hand-off
		"HandOffsAreClaimedInSilence": handOffsAreClaimedInSilence,
		"LostHandOffsAreMadeAgain":    lostHandOffsAreMadeAgain,
		"HandedOffWorkIsStopped":      handedOffWorkIsStopped,
		"DeadlinesStopHandedOffWork":  deadlinesStopHandedOffWork,
		"EndsAndWhatFollowsAreOne":    endsAndWhatFollowsAreOne,
		"EveryEndHasItsFollowers":     everyEndHasItsFollowers,
		"UnplannedEndsWait":           unplannedEndsWait,
		"EndsArePlannedBeforehand":    endsArePlannedBeforehand,
		"DeferredEndsDelayNoDeadline": deferredEndsDelayNoDeadline,
		"FollowersFailAtBirth":        followersFailAtBirth,
		"ChainsLinkToWhatIsThere":     chainsLinkToWhatIsThere,
		"ChainsKeepTheirWidth":        chainsKeepTheirWidth,
		"BeginningsAreToldOnce":       beginningsAreToldOnce,
		"ProgressOnlyGrows":           progressOnlyGrows,
		"BigDocumentsAreReferred":     bigDocumentsAreReferred,
		// limits
		"TokensAreSharedOut":           tokensAreSharedOut,
		"RefusalsSlowALane":            refusalsSlowALane,
		"SlotsAreSharedOut":            slotsAreSharedOut,
		"DeadInstancesGiveSlotsBack":   deadInstancesGiveSlotsBack,
		"LimitsHoldUnderManyInstances": limitsHoldUnderManyInstances,
		"PeoplePauseAndDisableLanes":   peoplePauseAndDisableLanes,
		"WellLanesLeaveNoLimiter":      wellLanesLeaveNoLimiter,
		// the cache
		"GoodAnswersAreCached":          goodAnswersAreCached,
		"LaterSubscribersAreTold":       laterSubscribersAreTold,
		"EndedJobsTellAtOnce":           endedJobsTellAtOnce,
		"SubscribersOfAJobAreBounded":   subscribersOfAJobAreBounded,
		"SubscribersMeetEnds":           subscribersMeetEnds,
		"EntriesExpireOnDemand":         entriesExpireOnDemand,
		"RetriesAnswerFromThenOn":       retriesAnswerFromThenOn,
		"DismissedJobsKeepTheirEnd":     dismissedJobsKeepTheirEnd,
		"EntriesAreListedByKey":         entriesAreListedByKey,
		"EqualPayloadsRaceForOneJob":    equalPayloadsRaceForOneJob,
		"RepeatedRequestsMakeOneAction": repeatedRequestsMakeOneAction,
		"IdempotencyKeysStandForADay":   idempotencyKeysStandForADay,
		"RepeatsRaceForOneAction":       repeatsRaceForOneAction,
		"JobsAreSelectedByPhase":        jobsAreSelectedByPhase,
		"EventsOfAllActionsAreRead":     eventsOfAllActionsAreRead,
		"OldIdempotencyKeysAreDeleted":  oldIdempotencyKeysAreDeleted,
		"EventsOfOneMomentArePaged":     eventsOfOneMomentArePaged,
		"LateEventsAreRead":             lateEventsAreRead,
		// events
		"RedeliveredEventsHaveOneAction":   redeliveredEventsHaveOneAction,
		"EventsDifferByTriggerSourceAndID": eventsDifferByTriggerSourceAndID,
		"BatchesAreStoredWhole":            batchesAreStoredWhole,
		"FaultyEventsFailAtBirth":          faultyEventsFailAtBirth,
		"CachedJobsAnswerEvents":           cachedJobsAnswerEvents,
		"EventsRaceForOneAction":           eventsRaceForOneAction,
		"EventsAreForgottenAfterAWeek":     eventsAreForgottenAfterAWeek,
		"FaultyActionsAreNotReplayed":      faultyActionsAreNotReplayed,
		"LiveEventsAreCounted":             liveEventsAreCounted,
		// status
		"StatusTellsWhereAllActionsStand": statusTellsWhereAllActionsStand,
		"RescuesAreCountedForAnHour":      rescuesAreCountedForAnHour,
		"InstancesTellWhatNoRowSays":      instancesTellWhatNoRowSays,
		"TurnsDoNotWaitForSlowPlans":      turnsDoNotWaitForSlowPlans,
		"SeveralOfABatchSubscribe":        severalOfABatchSubscribe,
		"WithoutAPlannerNobodySubscribes": withoutAPlannerNobodySubscribes,
		// retention
		"OldActionsAreDeleted":          oldActionsAreDeleted,
		"RefusedRetentionKeepsAll":      refusedRetentionKeepsAll,
		"RetainedActionsAreRefusedToGo": retainedActionsAreRefusedToGo,
		// the rest
		"CallersShareTransactions":          callersShareTransactions,
		"SeveralActionsHaveOneBefore":       severalActionsHaveOneBefore,
		"SeveralActionsConflictWithNone":    severalActionsConflictWithNone,
		"BeforesShareTransactions":          beforesShareTransactions,
		"CallersOfASharedBeforeMayLeave":    callersOfASharedBeforeMayLeave,
		"InstancesLiveByTheirHeartbeat":     instancesLiveByTheirHeartbeat,
		"OneProcessRunsAloneOnAFile":        oneProcessRunsAloneOnAFile,
		"InstancesOutliveTheLedgersAbsence": instancesOutliveTheLedgersAbsence,
		"InstancesDieWithTheirConnection":   instancesDieWithTheirConnection,
		"NewerSchemasAreNoticed":            newerSchemasAreNoticed,
	}
}
