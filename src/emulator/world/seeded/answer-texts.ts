/** Texts of answers: plain, long, and difficult to parse (quotes, line breaks, JSON, formulas, blanks). */
export const SHORT_TEXTS = [
  'Ann',
  'Dr. Ñandú',
  'Praxis Müller & Söhne',
  'n/a',
  'yes',
  '0042',
  '1.50',
  '=1+1',
  'see "notes"',
  '日本語のメモ',
  '',
  ' two words ',
  '{"a": [1, 2]}',
  'None; or almost',
  '2024-02-30',
] as const

export const LONG_TEXTS = [
  'Since last week, mostly in the evening.',
  'First line\nsecond line, with a comma\n\nlast line',
  'He said "it will pass", and it did not.',
  'Kopfschmerzen; Übelkeit — seit 3 Tagen',
  'ألم في الظهر',
  'Took 2 x 500 mg\r\nand slept',
  '-',
  '<b>worse</b> & worse',
] as const

export const NUMBERS = ['7', '0', '72.5', '-3', '1000000', '0.1', '82', '5'] as const

export const CELL_TEXTS = [
  '81 mg',
  'Aspirin',
  'since 2019',
  '',
  '2 x daily, "as needed"',
  'Ibuprofen 400',
] as const

export const FILES = [
  { name: 'card.png', content_type: 'image/png' },
  { name: 'Befund März.pdf', content_type: 'application/pdf' },
  { name: 'IMG_0001.JPG', content_type: 'image/jpeg' },
] as const
