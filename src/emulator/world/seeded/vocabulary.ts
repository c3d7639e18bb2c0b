/**
 * The words of generated people. Names have the features of real ones: accents, apostrophes, hyphens, prefixes,
 * several scripts, a single letter, a space inside.
 */
const listed = (text: string) => text.split(',').map((word) => word.trim())

export const FIRST_NAMES: readonly string[] = listed(`
  Ann, José, Zoë, Björn, Siobhán, D’Andre, Ma'ayan, Jean-Luc, María José, Łukasz, Nguyễn, Søren, Chloé,
  Iñaki, Ayşe, Władysława, Þóra, Œdipa, 伟, 美咲, 서연, Ольга, Дмитрий, Ελένη, محمد, نور, שרה, प्रिया, ธนา,
  J, Li, Kwame, Adaeze, Tāne, Nuʻu, Mary, James, Robert, Patricia, Jennifer, Michael, Linda, William,
  Elizabeth, Barbara, Richard, Susan, Thomas, Jessica, Karen, Daniel, Nancy, Matthew, Lisa, Anthony,
  Betty, Mark, Sandra, Fatima, Hiroshi, Chidi, Ingrid, Mateus, Rosa`)

export const LAST_NAMES: readonly string[] = listed(`
  O'Brien, García Márquez, Müller, van der Berg, de la Cruz, Nuñez, Åkesson, Đặng, Šimůnek, Žižek,
  Öztürk, D’Souza, McDonald, St. John, Smith-Jones, Ng, O, 王, 佐藤, 김, Иванова, Παπαδόπουλος, الأحمد,
  כהן, शर्मा, Null, True, Smith, Johnson, Williams, Brown, Jones, Miller, Davis, Wilson, Anderson,
  Taylor, Moore, Jackson, Martin, Lee, Thompson, White, Harris, Clark, Lewis, Walker, Hall, Young,
  King, Wright, Hill, Scott, Green, Adams, Baker, Okafor, Mensah, Tanaka, Haddad, Kowalczyk, Ferreira,
  Lindqvist, Castellanos de la Fuente y Montenegro`)

/** Cities with their states and ZIP codes. */
export const PLACES = [
  { city: 'Springfield', state: 'MA', zip: '01103' },
  { city: 'Holtsville', state: 'NY', zip: '00501' },
  { city: 'Coeur d’Alene', state: 'ID', zip: '83814' },
  { city: 'San José', state: 'CA', zip: '95112-4321' },
  { city: 'Winston-Salem', state: 'NC', zip: '27101' },
  { city: 'O‘ahu', state: 'HI', zip: '96815' },
  { city: 'St. Louis', state: 'MO', zip: '63101' },
  { city: 'Montréal', state: 'QC', zip: 'H2X 1Y4' },
  { city: 'Newark', state: 'NJ', zip: '07102' },
  { city: 'Duluth', state: 'MN', zip: '55802' },
  { city: 'El Paso', state: 'TX', zip: '79901' },
  { city: 'Truth or Consequences', state: 'NM', zip: '87901' },
] as const

export const STREETS = [
  'Main St',
  'Old Mill Rd',
  'Rue de l’Église',
  'Calle Ocho',
  'Martin Luther King Jr. Blvd',
  'Elm Street',
  '3rd Ave NW',
  'Straße des 17. Juni',
  'County Road 12 "The Lane"',
  'Harbour\\Quay',
  'Sunset Dr',
  'Pine Ridge Ct',
] as const

export const SECOND_LINES = ['', '', '', 'Apt 4', 'Suite 200', 'c/o Rosa', 'Floor 2, rear', '#12'] as const
export const SEXES = [
  'Female',
  'Male',
  'Female',
  'Male',
  'Female',
  'Male',
  'Intersex',
  'Unknown',
  '',
] as const
export const RELATIONSHIPS = ['Spouse', 'Parent', 'Child', 'Sibling', 'Friend', 'Guardian', ''] as const

export const TAGS = [
  { name: 'VIP', color: '#ff0000' },
  { name: 'New', color: '#00ff00' },
  { name: 'Needs interpreter', color: '#3366cc' },
  { name: 'high-risk', color: '#FF8800' },
  { name: 'Télésanté', color: '#123abc' },
  { name: 'Fax only', color: '#000000' },
] as const

/** Keys of custom fields with the values they take. */
export const CUSTOM_FIELDS = [
  { key: 'plan', values: ['PPO', 'HMO', 'Medicare', 'self-pay', ''] },
  { key: 'insurance_id', values: ['0012345', 'XJ-99/4', '00-1', '1e5'] },
  { key: 'Preferred language', values: ['English', 'Español', '中文', 'العربية', 'Tiếng Việt'] },
  {
    key: 'notes',
    values: ['line one\nline two', 'says "call after 5"', 'tab\there', '  spaces kept  ', 'emoji 🙂'],
  },
  { key: 'allergies', values: ['none', 'peanuts, latex', 'penicillin; sulfa', 'N/A'] },
  { key: 'consent.email', values: ['yes', 'no', 'true', 'false'] },
  { key: '紹介元', values: ['自己紹介', 'Dr. Åkesson'] },
] as const

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
