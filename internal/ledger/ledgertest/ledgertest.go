// Package ledgertest is what every driver of a ledger must do: one suite, run
// against each real database.
package ledgertest

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger"
)

// Database is a database of a test's own.
type Database struct {
	// Open makes one more driver on it, as another process would. The suite closes it.
	Open func(t *testing.T) ledger.Driver
	// Exec runs a statement behind the drivers' backs.
	Exec func(statement string) error
	// Past makes room for actions that were created in a period long ago, where room is made ahead of time; nil where it is not.
	Past func(t *testing.T, from, to time.Time)
	// Hold begins a transaction that has read the actions and keeps retention from deleting any; nil where none does.
	Hold func(t *testing.T) (release func())
	// Cut ends every open connection from outside; nil where there are none.
	Cut func() error
}

// Run checks a driver. Each call of open gives a fresh database.
func Run(t *testing.T, open func(t *testing.T) Database) {
	for name, check := range checks() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, newSetup(t, open(t)))
		})
	}
}

// checks is the suite: a name that says what holds, and its proof.
func checks() map[string]func(*testing.T, setup) {
	return map[string]func(*testing.T, setup){
		// the deployment log
		"DefinesAndRegisters":            definesAndRegisters,
		"ArtifactsSealARevision":         artifactsSealARevision,
		"FactsAreAppendedOnce":           factsAreAppendedOnce,
		"NotesAreCounted":                notesAreCounted,
		"PositionsHaveNoGapUnderWriters": positionsHaveNoGapUnderWriters,
		"AppendRejectsStalePosition":     appendRejectsStalePosition,
		"RefusedDecisionLeavesNothing":   refusedDecisionLeavesNothing,
		"OldEpochIsRefused":              oldEpochIsRefused,
		"EntriesAreSelected":             entriesAreSelected,
		"RollUpsFollowTheLog":            rollUpsFollowTheLog,
		"QuestionsAreAnswered":           questionsAreAnswered,
		"HistoryRefusesChanges":          historyRefusesChanges,
		"IntroductionsAreKept":           introductionsAreKept,
		"ResourcesHaveOwners":            resourcesHaveOwners,
		"DefinitionsTakeTurns":           definitionsTakeTurns,
		"FirstHomeKeepsAHost":            firstHomeKeepsAHost,
		// actions
		"PassStartsAndTurnFinishes":      passStartsAndTurnFinishes,
		"FailedStepIsNoted":              failedStepIsNoted,
		"DrainedStepsEndAfterTheEntries": drainedStepsEndAfterTheEntries,
		"ClaimIsWhatNextSays":            claimIsWhatNextSays,
		"ClaimsAreExclusive":             claimsAreExclusive,
		"LowerPriorityGoesFirst":         lowerPriorityGoesFirst,
		"LanesAreListedPageByPage":       lanesAreListedPageByPage,
		"BlockedLanesAreLeftOut":         blockedLanesAreLeftOut,
		"BlockedLanesHideNoOther":        blockedLanesHideNoOther,
		"BlockedLanesAreNotClaimedOf":    blockedLanesAreNotClaimedOf,
		"ReadyLanesAreNamed":             readyLanesAreNamed,
		"ClaimsAreBoundedInBytes":        claimsAreBoundedInBytes,
		"LateCompletionsAreDropped":      lateCompletionsAreDropped,
		"SuccessNeedsNoLook":             successNeedsNoLook,
		"BadOutcomeFailsItsActionAlone":  badOutcomeFailsItsActionAlone,
		"TurnIsAllOrNothing":             turnIsAllOrNothing,
		"DeadClaimsAreRescued":           deadClaimsAreRescued,
		"OverdueAttemptsAreRescued":      overdueAttemptsAreRescued,
		"OverdueClaimsSpendNothing":      overdueClaimsSpendNothing,
		"EqualKeysMakeOneAction":         equalKeysMakeOneAction,
		"EqualKeysMayBeRefused":          equalKeysMayBeRefused,
		"EqualKeysMayReplace":            equalKeysMayReplace,
		"ReplacersLeaveOne":              replacersLeaveOne,
		"OvertakingIsBounded":            overtakingIsBounded,
		"PriorityStepsAreTheHandlers":    priorityStepsAreTheHandlers,
		"SnoozedActionsWait":             snoozedActionsWait,
		"ReplaysAreMadeOnce":             replaysAreMadeOnce,
		"DeploymentsOwnTheirSteps":       deploymentsOwnTheirSteps,
		"DueActionsBecomeReady":          dueActionsBecomeReady,
		"DeadlinesEndActions":            deadlinesEndActions,
		"DefaultDeadlinesAreKept":        defaultDeadlinesAreKept,
		"CancelEndsOrAsks":               cancelEndsOrAsks,
		"EndsAgainstPassesDoNotDeadlock": endsAgainstPassesDoNotDeadlock,
		"IllegalTransitionsAreRefused":   illegalTransitionsAreRefused,
		"IllegalEntriesAreRefused":       illegalEntriesAreRefused,
		"ActionsAreSelected":             actionsAreSelected,
		"RepeatedValuesCountOnce":        repeatedValuesCountOnce,
		"AnyTextIsStored":                anyTextIsStored,
		"WhatIsNoTextIsRefused":          whatIsNoTextIsRefused,
		"DeepDocumentsAreTexts":          deepDocumentsAreTexts,
		// hand-off
		"HandOffsAreClaimedInSilence": handOffsAreClaimedInSilence,
		"LostHandOffsAreMadeAgain":    lostHandOffsAreMadeAgain,
		"ObserversMayRepeat":          observersMayRepeat,
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
		// status
		"StatusTellsWhereAllActionsStand": statusTellsWhereAllActionsStand,
		"RescuesAreCountedForAnHour":      rescuesAreCountedForAnHour,
		"InstancesTellWhatNoRowSays":      instancesTellWhatNoRowSays,
		"TicksMakeOneAction":              ticksMakeOneAction,
		"TurnsDoNotWaitForSlowPlans":      turnsDoNotWaitForSlowPlans,
		"SeveralOfABatchSubscribe":        severalOfABatchSubscribe,
		"WithoutAPlannerNobodySubscribes": withoutAPlannerNobodySubscribes,
		// retention
		"OldActionsAreDeleted":           oldActionsAreDeleted,
		"RefusedRetentionKeepsAll":       refusedRetentionKeepsAll,
		"UnusedUploadsAreSwept":          unusedUploadsAreSwept,
		"UploadsAreRegisteredWithinADay": uploadsAreRegisteredWithinADay,
		"RetainedActionsAreRefusedToGo":  retainedActionsAreRefusedToGo,
		// the rest
		"WaitersAreWoken":                   waitersAreWoken,
		"TokensOpenUntilRevoked":            tokensOpenUntilRevoked,
		"SessionsLastUntilEndedOrExpired":   sessionsLastUntilEndedOrExpired,
		"CallersShareTransactions":          callersShareTransactions,
		"InstancesLiveByTheirHeartbeat":     instancesLiveByTheirHeartbeat,
		"OneProcessRunsAloneOnAFile":        oneProcessRunsAloneOnAFile,
		"InstancesOutliveTheLedgersAbsence": instancesOutliveTheLedgersAbsence,
		"InstancesDieWithTheirConnection":   instancesDieWithTheirConnection,
		"NewerSchemasAreNoticed":            newerSchemasAreNoticed,
		"CutConnectionsLoseNothing":         cutConnectionsLoseNothing,
		"PlansUseIndexes":                   plansUseIndexes,
		"OpensWhatItWrote":                  opensWhatItWrote,
	}
}
