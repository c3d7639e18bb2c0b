// Keeps a page current: loads its content again when the server says that something changed. Pages work without it.
;(() => {
  const WAITING_MS = 1000
  const QUIET_MS = 2000
  let loaded = 0
  let due = null

  const content = () => document.getElementById('content')

  /** Somebody is writing, choosing or reading a preview: the page must not change under their hands. */
  function isBusy() {
    const active = document.activeElement
    return active?.closest('form') !== null && active?.matches('input, select, textarea') === true
  }

  function reload() {
    due = null
    if (document.hidden || isBusy()) return later(QUIET_MS)
    loaded = Date.now()
    window.htmx.ajax('GET', location.href, { target: '#content', select: '#content', swap: 'outerHTML' })
  }

  function later(milliseconds) {
    due ??= setTimeout(reload, Math.max(milliseconds, QUIET_MS - (Date.now() - loaded)))
  }

  function settle() {
    if (content()?.hasAttribute('data-waits')) {
      clearTimeout(due)
      due = setTimeout(reload, WAITING_MS)
    }
  }

  document.addEventListener('DOMContentLoaded', () => {
    document.body.addEventListener('htmx:afterSettle', settle)
    settle()
    if (!content()?.hasAttribute('data-live')) return
    new EventSource('/live').addEventListener('changed', () => {
      if (content()?.hasAttribute('data-live')) later(0)
    })
  })
})()
