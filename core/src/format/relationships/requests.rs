//! Headers and developer messages (A10, A18), retries (A21), nested runs (A22).

use super::brackets::object;
use super::equality::is_deeply_equal;
use super::state::{Change, Dispatch, Header, OpenDispatch, Tool};
use super::{Judged, LogChecker, broken, require};
use crate::event::facts::{StepLink, identity, is_object, is_text, members};
use crate::event::{Event, Span};
use crate::json::{Json, Kind};
use std::sync::Arc;

/// What something is known by, where the value may be absent: absent values are equal to each other and to nothing else.
pub(super) fn key(value: Option<Json<'_>>) -> Box<str> {
    value.map_or_else(|| "\u{0}".into(), |value| identity(value).into())
}

impl LogChecker {
    pub(super) fn request_header(
        &self,
        event: &Event,
        has_config: bool,
        provider: Span,
        tools: Span,
    ) -> Judged {
        self.require_turn("A18")?;
        require(has_config, "A18", "a `request/header` has no `config` object")?;
        let provider = event.value_at(provider).map(|provider| Arc::from(identity(provider)));
        let tools = event.value_at(tools).map(|value| {
            match &self.state.now.tools {
                // Most headers repeat the tools of the one before.
                Some((text, list)) if **text == *value.text() => (Arc::clone(text), Arc::clone(list)),
                _ => (Arc::from(value.text()), value.elements().map(Tool::read).collect()),
            }
        });
        Ok(Change::Header(Box::new(Header { provider, tools })))
    }

    pub(super) fn request_context(&self, data: Json<'_>) -> Judged {
        self.require_turn("A18")?;
        object(data, "A18")?;
        Ok(Change::None)
    }

    pub(super) fn developer_message(
        &self,
        event: &Event,
        step: StepLink,
        header_seq: Option<u64>,
        additions: &[Span],
    ) -> Judged {
        if let Some(seq) = header_seq {
            let headers = &self.state.headers;
            let found =
                headers.binary_search_by_key(&seq, |(seq, _)| *seq).ok().and_then(|at| headers.get(at));
            let Some((_, tools)) = found else {
                return broken("A10", "`headerSeq` names no earlier `request/header`");
            };
            for addition in additions {
                let name = event.value_at(*addition).map(identity).unwrap_or_default();
                let mut matching = tools.iter().filter(|tool| *tool.name == *name);
                let is_defined =
                    matching.next().is_some_and(|tool| tool.is_defined) && matching.next().is_none();
                require(is_defined, "A10", "an added tool is not defined once in the header that is named")?;
            }
        }
        self.inside_step(step)?;
        Ok(Change::None)
    }

    pub(super) fn retry(&self, data: Json<'_>) -> Judged {
        const RULE: &str = "A21";
        let now = &self.state.now;
        let [id, retry, turn, step, provider, policy] =
            members(data, ["retryId", "retry", "turn", "step", "provider", "policyKey"]);
        require(is_text(id), RULE, "a retry has no `retryId`")?;
        let Some(retry) = retry.and_then(|retry| retry.as_count()) else {
            return broken(RULE, "`retry` is not a count");
        };
        let Some(turn) = turn.and_then(|turn| turn.as_count()).filter(|turn| now.open_turn == Some(*turn))
        else {
            return broken(RULE, "a retry does not name the open turn");
        };
        let expected = now.open_step.unwrap_or(now.next_step - 1);
        let Some(step) = step.and_then(|step| step.as_count()).filter(|step| *step == expected) else {
            return broken(RULE, "a retry names neither the open step nor the last one");
        };
        let is_provider = match (&now.provider, provider) {
            (Some(known), Some(provider)) => **known == *identity(provider),
            (known, provider) => known.is_none() && provider.is_none(),
        };
        require(is_provider, RULE, "a retry names another provider than the latest header")?;
        let chain = (turn, step, key(provider), key(policy));
        let id = key(id);
        let (last, begins) = match self.state.chains.get(&chain) {
            Some(chain_id) => {
                require(*chain_id == id, RULE, "a chain of retries changes its `retryId`")?;
                (self.state.retries.get(&id).map_or(0, |retries| retries.started.len() as u64), None)
            }
            None => {
                let is_fresh = !self.state.retries.contains_key(&id);
                require(is_fresh, RULE, "two chains of retries have one `retryId`")?;
                (0, Some(Box::new(chain)))
            }
        };
        if retry != last + 1 {
            return broken(RULE, format!("a retry is counted that is not number {}", last + 1));
        }
        Ok(Change::Retry { id, begins })
    }

    pub(super) fn retry_started(&self, data: Json<'_>) -> Judged {
        const RULE: &str = "A21";
        let [id, retry, turn, step] = members(data, ["retryId", "retry", "turn", "step"]);
        let count = |value: Option<Json<'_>>| value.and_then(|value| value.as_count());
        let id = key(id);
        let index = count(retry).and_then(|retry| usize::try_from(retry.checked_sub(1)?).ok());
        let retries = self.state.retries.get(&id);
        let scheduled = retries.zip(index).and_then(|(retries, index)| {
            retries.started.get(index).map(|is_started| (index, *is_started, &retries.key))
        });
        let Some((index, is_started, key)) = scheduled else {
            return broken(RULE, "a retry starts that was not scheduled");
        };
        let is_same_place = count(turn) == Some(key.0) && count(step) == Some(key.1);
        require(is_same_place, RULE, "a retry starts in another turn or step than it was scheduled in")?;
        require(!is_started, RULE, "a retry starts twice")?;
        Ok(Change::StartRetry { id, index })
    }

    pub(super) fn dispatch_start(&self, data: Json<'_>) -> Judged {
        const RULE: &str = "A22";
        self.require_turn(RULE)?;
        let [sub, root, parent, name, arguments] =
            members(data, ["subCallId", "rootCallId", "parentCallId", "name", "arguments"]);
        let has_ids = is_text(sub) && is_text(root) && is_text(parent);
        require(has_ids, RULE, "a nested run lacks `subCallId`, `rootCallId` or `parentCallId`")?;
        let (sub, root, parent) = (key(sub), key(root), key(parent));
        require(!self.state.dispatches.contains_key(&sub), RULE, "a nested run starts twice")?;
        let has_parent = parent == root
            || self.state.dispatches.get(&parent).is_some_and(|dispatch| dispatch.root == root);
        require(has_parent, RULE, "the parent of a nested run is neither its root nor a run of that root")?;
        let text = |value: Option<Json<'_>>| value.map(|value| value.text().into());
        let open = Some(OpenDispatch { parent, name: text(name), arguments: text(arguments) });
        Ok(Change::StartDispatch(sub, Box::new(Dispatch { root, open })))
    }

    pub(super) fn dispatch(&self, data: Json<'_>) -> Judged {
        const RULE: &str = "A22";
        self.require_turn(RULE)?;
        let [sub, root, parent, name, arguments] =
            members(data, ["subCallId", "rootCallId", "parentCallId", "name", "arguments"]);
        let sub = key(sub);
        let Some(dispatch) = self.state.dispatches.get(&sub) else {
            return broken(RULE, "a nested run ends that never started");
        };
        let Some(open) = &dispatch.open else { return broken(RULE, "a nested run ends twice") };
        let started = |text: &'_ Option<Box<str>>, value: Option<Json<'_>>| match (text, value) {
            (Some(text), Some(value)) => is_deeply_equal(Json::trusted(text), value),
            (text, value) => text.is_none() && value.is_none(),
        };
        let is_same = dispatch.root == key(root)
            && open.parent == key(parent)
            && started(&open.name, name)
            && started(&open.arguments, arguments);
        require(is_same, RULE, "a nested run ends with other ids, name or arguments than it started with")?;
        Ok(Change::SettleDispatch(sub))
    }
}

impl Tool {
    fn read(tool: Json<'_>) -> Tool {
        let [name, description, parameters] = members(tool, ["name", "description", "parameters"]);
        let is_string = description.is_some_and(|description| description.kind() == Kind::String);
        Tool { name: key(name), is_defined: is_string && is_object(parameters) }
    }
}
