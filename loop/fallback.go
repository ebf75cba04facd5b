package loop

import (
	"net/http"
	"slices"

	"dshsh/loop/model"
)

// Route names a model of a provider. Plain data.
type Route struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
}

// RecFallback says, before the next request, that the turn goes on with another model.
const RecFallback = "llm/fallback"

// Fallback is a llm/fallback record.
type Fallback struct {
	Turn    int            `json:"turn"`
	Step    int            `json:"step"`
	From    Route          `json:"from"`
	To      Route          `json:"to"`
	Failure *model.Failure `json:"failure"` // of From
}

// elsewhere are the failures that another model may not have. What is wrong with the
// request itself, such as its length or its content, is wrong everywhere.
var elsewhere = []string{model.CodeNoAdapter, model.CodeEmptyResponse, model.CodeRateLimit, model.CodeServer, model.CodeTimeout, model.CodeTransport,
	model.CodeQuota, model.CodeInvalidCredential}

// fallBack makes the next model of Config.Fallback answer for the rest of the turn, where
// there is one and f is no reason to give up. The step is still open, and nothing of a
// reply has been recorded as one.
func (a *agent) fallBack(act *activity, req *model.Request, f *model.Failure) (ok bool, err error) {
	if !slices.Contains(elsewhere, f.Code) && f.Status != http.StatusNotFound {
		return false, nil
	}
	from := Route{req.Provider, req.Model}
	for n := act.fallback; n < len(a.h.cfg.Fallback); n++ {
		to := a.h.cfg.Fallback[n]
		if to == from {
			continue
		}
		if _, err := a.append(RecFallback, Fallback{Turn: act.turn, Step: act.step, From: from, To: to, Failure: f}); err != nil {
			return false, err
		}
		act.fallback = n + 1
		delete(act.retries, retryNormal+" "+to.Provider) // another model's tries are its own
		return true, act.check()
	}
	return false, nil
}
