from ledger_tui.resources.webhook_log import KEPT, Listening, WebhookLog


def test_an_event_counts_once_and_its_signature_is_remembered() -> None:
    log = WebhookLog()
    assert log.note_signature("evt_1", True)
    assert not log.note_signature("evt_1", True)
    assert log.note_signature("evt_2", False)
    assert (log.received, log.wrong) == (2, 1)
    assert [log.signed(event) for event in ("evt_1", "evt_2", "evt_3", None)] == [True, False, None, None]


def test_a_delivery_shows_its_latest_state() -> None:
    log = WebhookLog()
    delivery = {"event": "evt_1", "endpoint": "whe_1", "status": "pending"}
    log.note_deliveries([delivery, {"event": "evt_1", "endpoint": "whe_2", "status": "failed"}, {"event": 5}])
    log.note_deliveries([{**delivery, "status": "succeeded"}])
    assert [d["status"] for d in log.deliveries("evt_1")] == ["succeeded", "failed"]
    assert log.deliveries("evt_2") == []


def test_however_long_it_listens_it_forgets_the_oldest() -> None:
    log = WebhookLog()
    for number in range(KEPT + 10):
        log.note_signature(f"evt_{number}", True)
    assert log.signed("evt_0") is None
    assert log.signed(f"evt_{KEPT + 9}") is True
    assert log.received == KEPT + 10


def test_what_is_forgotten_counts_anew_and_it_still_listens() -> None:
    log = WebhookLog()
    log.listening = Listening.ON
    log.endpoints = {"whe_1": {"id": "whe_1"}}
    log.note_signature("evt_1", False)
    log.note_deliveries([{"event": "evt_1", "endpoint": "whe_1", "status": "failed"}])
    log.forget()
    assert (log.received, log.wrong, log.signed("evt_1")) == (0, 0, None)
    assert (log.endpoints, log.deliveries("evt_1")) == ({}, [])
    assert log.listening is Listening.ON
    assert log.note_signature("evt_1", True)
