package promotion

// The reasons, in the order in which a verdict lists them. The numbers are those of the blocking reasons.
const (
	WhyEnvironmentNotReady ReasonCode = "EnvironmentNotReady"
	WhySettling            ReasonCode = "Settling"
	WhyBackward            ReasonCode = "Backward"
	WhyNoTargets           ReasonCode = "NoTargets"
	WhyTargetUnknown       ReasonCode = "TargetUnknown"
	WhySoaking             ReasonCode = "Soaking"
	WhyTargetFailed        ReasonCode = "TargetFailed"
	WhyRollbackFailed      ReasonCode = "RollbackFailed"
	WhyAhead               ReasonCode = "Ahead"

	WhySuspended ReasonCode = "Suspended" // 1

	WhyPredecessorUnknown   ReasonCode = "PredecessorUnknown" // 2, and the six below
	WhyPredecessorWaiting   ReasonCode = "PredecessorWaiting"
	WhyPredecessorUnhealthy ReasonCode = "PredecessorUnhealthy"
	WhyPredecessorSoaking   ReasonCode = "PredecessorSoaking"
	WhyPredecessorVerifying ReasonCode = "PredecessorVerifying"
	WhyPredecessorMovedOn   ReasonCode = "PredecessorMovedOn"
	WhyPredecessorWentBack  ReasonCode = "PredecessorWentBack"

	WhyIntroducedAfter ReasonCode = "IntroducedAfter" // 3
	WhyPromotedByHand  ReasonCode = "PromotedByHand"  // 4
	WhyHeld            ReasonCode = "Held"            // 5
	WhyFrozen          ReasonCode = "Frozen"          // 5
	WhyDeclined        ReasonCode = "Declined"        // 6
	WhyDriftedBack     ReasonCode = "DriftedBack"     // 7
	WhyRollingOut      ReasonCode = "RollingOut"      // 7
	WhyRolloutTimedOut ReasonCode = "RolloutTimedOut" // 7
	WhyBusy            ReasonCode = "Busy"            // 8
	WhyWaitingGate     ReasonCode = "WaitingGate"     // 9
	WhyGateFailed      ReasonCode = "GateFailed"      // 9
	WhyWaitingApproval ReasonCode = "WaitingApproval" // 10
	WhyWindowClosed    ReasonCode = "WindowClosed"    // 11
	WhyAttemptFailed   ReasonCode = "AttemptFailed"   // 12
	WhyNoMarkers       ReasonCode = "NoMarkers"       // 12
	WhyAttemptLive     ReasonCode = "AttemptLive"     // 13
	WhyRechecking      ReasonCode = "Rechecking"      // 13

	WhyWaitingMerge ReasonCode = "WaitingMerge"
	WhyChecksFailed ReasonCode = "ChecksFailed"

	// WhyDegraded is a note on a complete environment some of whose targets have failed.
	WhyDegraded ReasonCode = "Degraded"
)

// Standing groups reasons by the condition of the pipeline that reports them.
type Standing string

// The standings. They are the types of the conditions.
const (
	StandsPending Standing = "PromotionPending" // something waits and nothing is wrong
	StandsFailed  Standing = "RolloutFailed"
	StandsStalled Standing = "Stalled" // a person has to act
	StandsNoted   Standing = ""        // nothing waits
)

// Condition returns the condition that reports a reason, and its reason there.
func (c ReasonCode) Condition() (of Standing, reason ReasonCode) {
	switch c {
	case WhyTargetFailed, WhyRolloutTimedOut, WhyGateFailed, WhyDriftedBack:
		return StandsFailed, c
	case WhyAttemptFailed, WhyNoMarkers, WhyChecksFailed, WhyRollbackFailed:
		return StandsStalled, c
	case WhySettling, WhyWaitingApproval, WhyWindowClosed, WhyFrozen, WhyHeld, WhyWaitingGate, WhyWaitingMerge,
		WhyTargetUnknown, WhySuspended:
		return StandsPending, c
	case WhyDeclined, WhyBackward, WhyIntroducedAfter, WhyPromotedByHand:
		return StandsPending, WhyHeld
	case WhyDegraded:
		return StandsNoted, ""
	}
	return StandsPending, WhyEnvironmentNotReady
}
