// Searches the sections of all pages (search-index.js), in the browser: the page may be opened from a folder.

/** The sections that contain every word, best first: a word in a title counts more than one in the text. */
function findSections(sections, query, limit) {
  const words = query
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '')
  if (words.length === 0) return []
  const found = []
  for (const section of sections) {
    const [title, page, text] = [section.title, section.page, section.text].map((each) => each.toLowerCase())
    let score = 0
    for (const word of words) {
      const times = text.split(word).length - 1
      const points = (title.includes(word) ? 20 : 0) + (page.includes(word) ? 5 : 0) + Math.min(times, 5)
      if (points === 0) {
        score = 0
        break
      }
      score += points
    }
    if (score > 0) found.push({ section, score, words })
  }
  return found.sort((a, b) => b.score - a.score).slice(0, limit)
}

/** The text around the first word that is found. */
function excerpt(text, words) {
  const at = Math.max(
    0,
    Math.min(...words.map((word) => (text.toLowerCase().indexOf(word) + 1 || text.length + 1) - 1)),
  )
  const start = Math.max(0, Math.min(at, text.length) - 40)
  return `${start > 0 ? '…' : ''}${text.slice(start, start + 120)}${text.length > start + 120 ? '…' : ''}`
}

if (typeof document !== 'undefined') {
  const input = document.getElementById('search')
  const list = document.getElementById('found')
  const root = document.body.dataset.root
  input.addEventListener('input', () => {
    const found = findSections(sections, input.value, 12)
    list.replaceChildren(
      ...found.map(({ section, words }) => {
        const item = document.createElement('li')
        const link = document.createElement('a')
        link.href = `${root}/${section.at}`
        link.textContent =
          section.title === section.page ? section.title : `${section.page}: ${section.title}`
        const text = document.createElement('p')
        text.textContent = excerpt(section.text, words)
        item.append(link, text)
        return item
      }),
    )
    if (found.length === 0 && input.value.trim() !== '') list.textContent = 'Nothing found.'
  })
  document.addEventListener('keydown', (event) => {
    if (event.key === '/' && document.activeElement !== input) {
      event.preventDefault()
      input.focus()
    }
    if (event.key === 'Enter' && document.activeElement === input) list.querySelector('a')?.click()
  })
}
