"""A report that takes many steps, any of which may fail. Each page that is done is kept, so that the next attempt goes on
where the last one stopped."""

from nimbus import log

PAGES = 5


def fetch_page(month, page):
    """Put the call of your source here; it may raise whenever it likes."""
    return {"page": page, "total": 100 * page + len(month)}


def handle(event, state, context):
    if event.get("action") == "show":
        return state.get("report") or {"status_code": 404, "body": {"error": "there is no report yet"}}
    month = event["month"]
    for page in range(1, PAGES + 1):
        key = f"page:{month}:{page}"
        if not state.exists(key):
            state.set(key, fetch_page(month, page))
    pages = list(state.get_many([f"page:{month}:{page}" for page in range(1, PAGES + 1)]).values())
    report = {"month": month, "total": sum(page["total"] for page in pages), "attempts": context.attempt}
    state.set("report", report)
    for key in state.keys(f"page:{month}:*"):
        state.delete(key)
    log.info("report done", month=month, attempts=context.attempt)
    return report
