// Package journaltest is the suite of every driver of a journal, run against each real database. The journal works
// alone here: a fake takes the actions of its steps, and every instance lives that the test does not end.
package journaltest

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
		"JournalFollowsTheModel": journalFollowsTheModel,
		// the deployment log
		"DefinesAndRegisters":            definesAndRegisters,
		"ArtifactsSealARevision":         artifactsSealARevision,
		"DecisionsCreateDeployments":     decisionsCreateDeployments,
		"RequestsWithAKeyDeployOnce":     requestsWithAKeyDeployOnce,
		"RevisionsAreRejected":           revisionsAreRejected,
		"SealedRevisionsStaySealed":      sealedRevisionsStaySealed,
		"FactsAreAppendedOnce":           factsAreAppendedOnce,
		"NotesAreCounted":                notesAreCounted,
		"PositionsHaveNoGapUnderWriters": positionsHaveNoGapUnderWriters,
		"AppendRejectsStalePosition":     appendRejectsStalePosition,
		"RefusedDecisionLeavesNothing":   refusedDecisionLeavesNothing,
		"DecidersReadDefinitions":        decidersReadDefinitions,
		"DecidersMeetACutConnection":     decidersMeetACutConnection,
		"EntriesAreSelected":             entriesAreSelected,
		"RollUpsFollowTheLog":            rollUpsFollowTheLog,
		"QuestionsAreAnswered":           questionsAreAnswered,
		"HistoryNamesEveryDeployment":    historyNamesEveryDeployment,
		"HistoryIsReadInPages":           historyIsReadInPages,
		"ResourcesKeepWhatFinished":      resourcesKeepWhatFinished,
		"RunsKeepTheirFailures":          runsKeepTheirFailures,
		"RunsAreReadByTheirEnds":         runsAreReadByTheirEnds,
		"RevisionsBetweenTwoAreRead":     revisionsBetweenTwoAreRead,
		"IntroductionsAreKept":           introductionsAreKept,
		"ResourcesHaveOwners":            resourcesHaveOwners,
		"DefinitionsTakeTurns":           definitionsTakeTurns,
		// what the database itself refuses
		"IllegalEntriesAreRefused": illegalEntriesAreRefused,
		// digests
		"EditsOfEntriesAreNamed":        editsOfEntriesAreNamed,
		"EarlierVersionsWriteNoDigests": earlierVersionsWriteNoDigests,
		// archives
		"ArchivingMovesEndedDeployments": archivingMovesEndedDeployments,
		"ArchivingIsRefused":             archivingIsRefused,
		"ArchivingIsWholeOrNothing":      archivingIsWholeOrNothing,
		"EntriesStayUntilArchived":       entriesStayUntilArchived,
		"ArchivesAreListed":              archivesAreListed,
		"DecidersSeeTheBound":            decidersSeeTheBound,
		// uploads
		"UnusedUploadsAreSwept":          unusedUploadsAreSwept,
		"UploadsAreRegisteredWithinADay": uploadsAreRegisteredWithinADay,
	}
}
