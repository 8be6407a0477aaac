package server

import (
	"sync"

	"github.com/waybill-dev/waybill/internal/schedule"
)

// folds keeps one folded engine per pipeline, so that a question costs the rows
// since the last one and not the whole log.
type folds struct {
	mu         sync.Mutex
	byPipeline map[string]*fold
}

// fold is a pipeline's engine; mu also guards reading, for an engine is not safe for concurrent use.
type fold struct {
	mu     sync.Mutex
	engine *schedule.Engine
}
