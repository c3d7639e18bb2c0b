// Keeps a page current: loads its content again when the server says that something changed. Pages work without it.
;(() => {
  const WAITING_MS = 1000
  const QUIET_MS = 2000
  const AT_LEAST_MS = 30_000
  let loaded = 0
  let due = null

  const content = () => document.getElementById('content')

  /** Somebody is on a link, a button or a field of the page: it must not change under their hands. */
  function isBusy() {
    const active = document.activeElement
    return content().contains(active) && active.matches('a, button, input, select, textarea, summary')
  }

  /** What a reader has scrolled, opened and focused stays so when the content is replaced. */
  function remember() {
    const regions = () => [...content().querySelectorAll('.scroll')]
    const details = () => [...content().querySelectorAll('details')]
    const scrolled = regions().map(({ scrollLeft }) => scrollLeft)
    const open = details().map((each) => each.open)
    const focused = regions().indexOf(document.activeElement)
    return () => {
      for (const [at, each] of regions().entries()) each.scrollLeft = scrolled[at] ?? 0
      for (const [at, each] of details().entries()) each.open = open[at] ?? false
      regions()[focused]?.focus({ preventScroll: true })
    }
  }

  async function reload() {
    due = null
    if (document.hidden || isBusy()) return later(QUIET_MS)
    loaded = Date.now()
    const restore = remember()
    const place = { target: '#content', select: '#content', swap: 'outerHTML' }
    await window.htmx.ajax('GET', location.href, place).catch(() => {})
    restore()
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

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

  /** Durations, whose names end with their unit, have an axis of their own at the right. */
  function draw(place, data, names, time) {
    const axis = { stroke: colour('--soft'), grid: { stroke: colour('--line'), width: 1 } }
    const isDuration = (label) => label.endsWith(', s')
    const line = (label, at) => ({
      label,
      stroke: colour(['--bar', '--good', '--link', '--warn', '--bad'][at]),
      width: 2,
      scale: isDuration(label) ? 's' : 'y',
    })
    const durations = names.some(isDuration) ? [{ ...axis, scale: 's', side: 1, grid: { show: false } }] : []
    const options = {
      width: Math.max(280, Math.min(place.clientWidth, 1100)),
      height: 220,
      scales: { x: { time } },
      axes: [axis, axis, ...durations],
      series: [{}, ...names.map(line)],
    }
    place.replaceChildren()
    return new window.uPlot(options, data, place)
  }

  function drawWeeks() {
    for (const place of document.querySelectorAll('[data-weeks]')) {
      const weeks = JSON.parse(place.dataset.weeks)
      const of = (name) => weeks.map((week) => week[name])
      const days = weeks.map(({ week }) => Date.parse(`${week}T00:00:00Z`) / 1000)
      draw(
        place,
        [days, of('asked'), of('submitted'), of('messages')],
        ['asked', 'submitted', 'messages'],
        true,
      )
    }
  }

  async function drawSamples() {
    const place = document.querySelector('[data-samples]')
    if (place === null || document.hidden) return
    try {
      const { samples } = await (await fetch(place.dataset.samples)).json()
      const of = (name) => samples.map((sample) => sample[name])
      const series = [of('at'), of('received'), of('stored'), of('drained'), of('p50'), of('p99')]
      const names = [
        'received/s',
        'stored/s',
        'visible/s',
        '50 % visible within, s',
        '99 % visible within, s',
      ]
      if (samples.length > 1) draw(place, series, names, true)
    } catch {
      // The next round tries again.
    }
  }

  document.addEventListener('DOMContentLoaded', () => {
    document.body.addEventListener('htmx:afterSettle', settle)
    document.body.addEventListener('htmx:afterSettle', drawWeeks)
    drawWeeks()
    drawSamples()
    setInterval(drawSamples, QUIET_MS)
    settle()
    if (!content()?.hasAttribute('data-live')) return
    const changed = () => {
      if (content()?.hasAttribute('data-live')) later(0)
    }
    new EventSource('/live').addEventListener('changed', changed)
    setInterval(changed, AT_LEAST_MS)
  })
})()
