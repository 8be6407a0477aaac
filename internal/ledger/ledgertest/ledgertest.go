// Package ledgertest is the suite of every driver of the whole log: the properties that need the queue and the
// journal together, those of tokens, and those of every statement. What concerns one of both is in queuetest and
// journaltest.
package ledgertest

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// Run checks a driver. Each call of open returns a fresh database.
func Run(t *testing.T, open func(t *testing.T) storetest.Database) {
	t.Helper()
	storetest.Run(t, open, newSetup, properties())
}

// properties returns the suite: a name that states the property, and its proof.
func properties() map[string]func(*testing.T, setup) {
	return map[string]func(*testing.T, setup){
		// the deployment log
		"OldEpochIsRefused":     oldEpochIsRefused,
		"HistoryRefusesChanges": historyRefusesChanges,
		// actions
		"PassStartsAndTurnFinishes":      passStartsAndTurnFinishes,
		"FailedStepIsNoted":              failedStepIsNoted,
		"DrainedStepsEndAfterTheEntries": drainedStepsEndAfterTheEntries,
		"TurnIsAllOrNothing":             turnIsAllOrNothing,
		"DeploymentsOwnTheirSteps":       deploymentsOwnTheirSteps,
		"EndsAgainstPassesDoNotDeadlock": endsAgainstPassesDoNotDeadlock,
		"AnyTextIsStored":                anyTextIsStored,
		"WhatIsNoTextIsRefused":          whatIsNoTextIsRefused,
		// hand-off
		"ObserversMayRepeat": observersMayRepeat,
		// promotions
		"AttemptsAreActions":                 attemptsAreActions,
		"CanceledAttemptsEndWithTheDecision": canceledAttemptsEndWithTheDecision,
		"DecisionsAreAllOrNothing":           decisionsAreAllOrNothing,
		"NoticesAreStoredWithTheirDecision":  noticesAreStoredWithTheirDecision,
		"EndsAgainstDecisionsDoNotDeadlock":  endsAgainstDecisionsDoNotDeadlock,
		// service instances
		"IdenticalRequestsMakeOneOperation":  identicalRequestsMakeOneOperation,
		"RequestsAtOnceDecideInOrder":        requestsAtOnceDecideInTheOrderOfIDs,
		"RefusedRequestsStoreNothing":        refusedRequestsStoreNothing,
		"OperationsEndInTheirRow":            operationsEndInTheirRow,
		"DeletesEndWaitingOperations":        deletesEndWaitingOperations,
		"DeletesWaitForRunningOperations":    deletesWaitForRunningOperations,
		"DeletesWaitForAllOperations":        deletesWaitForAllOperations,
		"OperationsEndsHastenNoBackOff":      endsHastenNoBackOff,
		"DeletesThatWaitTooLongTimeOut":      deletesThatWaitTooLongTimeOut,
		"LaterDeletesWaitForOperationsToo":   laterDeletesWaitForOperationsToo,
		"RepairsLeaveTheirRow":               repairsLeaveTheirRow,
		"OperationsAreAllOrNothing":          operationsAreAllOrNothing,
		"RepeatedOperationsAreNotDoubled":    repeatedOperationsAreNotDoubled,
		"BindingsAreDecidedUnderTheLock":     bindingsAreDecidedUnderTheLock,
		"DecisionsThatDoNotFitAreRefused":    decisionsThatDoNotFitAreRefused,
		"EndsAgainstOperationsDoNotDeadlock": endsAgainstOperationsDoNotDeadlock,
		"RetentionForgetsGoneServices":       retentionForgetsGoneServices,
		"PagesOfServicesHaveTheirOperations": pagesOfServicesHaveTheirOperations,
		// status
		"TicksMakeOneAction": ticksMakeOneAction,
		// the rest
		"WaitersAreWoken":                 waitersAreWoken,
		"TokensOpenUntilRevoked":          tokensOpenUntilRevoked,
		"SessionsLastUntilEndedOrExpired": sessionsLastUntilEndedOrExpired,
		"CutConnectionsLoseNothing":       cutConnectionsLoseNothing,
		"PlansUseIndexes":                 plansUseIndexes,
		"OpensWhatItWrote":                opensWhatItWrote,
	}
}
