/** Words of the page Findings, which come with it: English and Chinese. */
export const findingsWords = {
  "findings.advice": ["What to do", "怎么办"],
  "findings.confirm": ["How to confirm", "如何确认"],
  "findings.detectors": ["All {n} detectors", "全部 {n} 个检测器"],
  "findings.meaning": ["What it means", "意味着什么"],
  "findings.summary": ["{healthy} of {runs} runs without a finding", "{runs} 个运行中 {healthy} 个未发现问题"],
  "findings.window": ["began at step {onset}, noticed at step {noticed}", "始于第 {onset} 步，第 {noticed} 步被发现"],
} as const;
